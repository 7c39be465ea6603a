#include "binade/ops/norm/common.h"

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

void check_norm(std::string_view op, const NormArguments& args) {
  const Tensor& x = args.x;
  require_compute(op, "x", x);
  if (x.rank() == 0 || x.size(-1) == 0) {
    fail(op, {.argument = "x", .expected = "a last axis of at least 1", .found = describe(x)});
  }
  check_parameters(op, args.weight, args.bias, x.size(-1));
  check_eps(op, args.eps);
  if (!args.residual.defined()) return;
  require_compute(op, "residual", args.residual);
  require_shape(op, "residual", args.residual, x.shape());
}

void NormGradient::run(const Tensor& dy, const Tensor& dsum, const backend::Target& dx,
                       const GradSlot& dweight, const GradSlot& dbias,
                       const Tensor& dx_sums) const {
  const Shape& flat = x->shape();
  const Tensor sums = dx_sums.defined() ? viewed(dx_sums, {1, flat[1]}) : Tensor();
  backend::of(dy).norm.backward({.kind = kind,
                                 .dy = viewed(dense(dy), flat),
                                 .dsum = dsum.defined() ? viewed(dense(dsum), flat) : Tensor(),
                                 .x = x,
                                 .weight = weight,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .dx = dx,
                                 .dx_sums = {.view = sums},
                                 .dweight = target_of(dweight),
                                 .dbias = target_of(dbias)});
}

Tensor NormGradient::through_sum(const Tensor& dsum, const Tensor& dy, const GradSlot& dweight,
                                 const GradSlot& dbias, const GradSlot& addend) const {
  if (!dy.defined()) return dsum;
  const Tensor gradient = Tensor::empty(dy.shape(), x->dtype(), dy.device());
  const auto receiver = gradient_sums(addend, gradient.dtype());
  Tensor sums;
  if (receiver != nullptr)
    sums = Tensor::empty({x->size(1)}, accumulation_type(gradient), dy.device());
  run(dy, dsum, {.view = viewed(gradient, x->shape())}, dweight, dbias, sums);
  if (receiver != nullptr) receiver->set(gradient, sums);
  return gradient;
}

DType normed_type(Op op, DType stream) {
  const amp::AutocastState& state = amp::autocast_state();
  if (!state.enabled || stream == DType::f64) return stream;
  return amp::class_of(op) == CastClass::f32 ? DType::f32 : state.dtype;
}

}  // namespace binade::ops
