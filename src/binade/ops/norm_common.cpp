#include "binade/ops/norm_common.h"

#include <limits>

namespace binade::ops {

void check_eps(std::string_view op, double eps) {
  require_between(op, "eps", eps, 0, std::numeric_limits<double>::max());
}

void check_parameters(std::string_view op, const Tensor& weight, const Tensor& bias,
                      int64_t width) {
  for (const auto& [argument, x] : {std::pair("weight", &weight), std::pair("bias", &bias)}) {
    if (!x->defined()) continue;
    require_compute(op, argument, *x);
    require_shape(op, argument, *x, {width});
  }
}

void check_norm(std::string_view op, const Tensor& x, const Tensor& residual, const Tensor& weight,
                const Tensor& bias, double eps) {
  require_compute(op, "x", x);
  if (x.rank() == 0 || x.size(-1) == 0) {
    fail(op, {.argument = "x", .expected = "a last axis of at least 1", .found = describe(x)});
  }
  check_parameters(op, weight, bias, x.size(-1));
  check_eps(op, eps);
  if (!residual.defined()) return;
  require_compute(op, "residual", residual);
  require_shape(op, "residual", residual, x.shape());
}

void NormBackward::operator()(const Tensor& dy, const Tensor& dsum, const Tensor& dx,
                              bool accumulate_dx, const GradSlot& weight_slot,
                              const GradSlot& bias_slot) const {
  const Shape& flat = x->shape();
  GradSlot::Target dweight{{}, false}, dbias{{}, false};
  if (weight_slot.needs_grad()) dweight = weight_slot.target();
  if (bias_slot.needs_grad()) dbias = bias_slot.target();
  if (dweight.buffer.defined() && dbias.buffer.defined() &&
      dweight.accumulate != dbias.accumulate) {
    // The kernel has one flag for both: a buffer of zeros that is added to equals one
    // overwritten.
    backend::of(dy).elementwise.fill(dweight.accumulate ? dbias.buffer : dweight.buffer, 0);
    dweight.accumulate = true;
  }
  const bool accumulate = dweight.buffer.defined() ? dweight.accumulate : dbias.accumulate;
  backend::of(dy).norm.backward(kind, viewed(dense(dy), flat),
                                dsum.defined() ? viewed(dense(dsum), flat) : Tensor(), x, weight,
                                mean, rstd, viewed(dx, flat), accumulate_dx, dweight.buffer,
                                dbias.buffer, accumulate);
}

Tensor NormBackward::through_sum(const Tensor& dsum, const Tensor& dy, const GradSlot& weight_slot,
                                 const GradSlot& bias_slot) const {
  if (!dy.defined()) return dsum;
  const Tensor gradient = Tensor::empty(dy.shape(), x->dtype(), dy.device());
  (*this)(dy, dsum, gradient, false, weight_slot, bias_slot);
  return gradient;
}

DType normed_type(Op op, DType stream) {
  const amp::AutocastState& state = amp::autocast_state();
  if (!state.enabled || stream == DType::f64) return stream;
  return amp::class_of(op) == CastClass::f32 ? DType::f32 : state.dtype;
}

}  // namespace binade::ops
