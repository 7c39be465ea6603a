#include "binade/ops/norm/softmax.h"

#include <limits>
#include <utility>

#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;
using backend::SoftmaxKind;

int check_axis(std::string_view op, const Tensor& x, int64_t axis) {
  require_compute(op, "x", x);
  return normalize_axis(op.data(), axis, x.rank());
}

// x with axis `at` swapped with the last, since kernels take rows. Its own inverse.
Tensor axis_last(const Tensor& x, int at) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[at], shape[x.rank() - 1]);
  std::swap(strides[at], strides[x.rank() - 1]);
  return x.strided(shape, strides, x.offset());
}

Tensor rows(const Tensor& x) {
  const auto [count, width] = rows_of(x.shape());
  return viewed(dense(x), {count, width});
}

Tensor softmax(Op op, SoftmaxKind kind, const Tensor& x, int64_t axis, std::optional<DType> dtype) {
  const int at = check_axis(name(op), x, axis);
  const Call call(op, {x}, dtype.has_value());
  const Tensor last = axis_last(call[0], at);
  const Tensor y = Tensor::empty(last.shape(), dtype.value_or(call[0].dtype()), x.device());
  backend::of(x).softmax.forward(kind, rows(last), rows(y));
  return call.result(axis_last(y, at), [kind, at, y = Saved(y)](const Tensor& dy, GradSlots dx) {
    const Tensor gradient = Tensor::empty_like(y.get());
    backend::of(dy).softmax.backward(kind, rows(axis_last(dy, at)), rows(y), {rows(gradient)});
    dx[0].add(axis_last(gradient, at));
  });
}

// The gradient exp(x - y) of logsumexp in rows whose result y is infinite, as PyTorch has it: 0 for
// the finite elements of x, where the softmax of the row is NaN. Elsewhere the softmax is more
// accurate.
void replace_infinite_rows(const Tensor& x, const Tensor& y, const Tensor& gradient) {
  const auto& kernels = backend::of(x).elementwise;
  const TensorView spread = TensorView(y).expanded(x.shape());
  const Tensor is_infinite = Tensor::empty(y.shape(), DType::boolean, x.device()),
               difference = Tensor::empty(x.shape(), gradient.dtype(), x.device());
  kernels.unary(backend::Unary::is_inf, {}, y, is_infinite);
  kernels.binary(backend::Binary::sub, x, spread, difference);
  kernels.unary(backend::Unary::exp, {}, difference, difference);
  kernels.where(TensorView(is_infinite).expanded(x.shape()), difference, gradient, gradient);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis, std::optional<DType> dtype) {
  return softmax(Op::softmax, SoftmaxKind::plain, x, axis, dtype);
}

Tensor log_softmax(const Tensor& x, int64_t axis, std::optional<DType> dtype) {
  return softmax(Op::log_softmax, SoftmaxKind::log, x, axis, dtype);
}

Tensor logsumexp(const Tensor& x, int64_t axis, bool keep) {
  const int at = check_axis("logsumexp", x, axis);
  const Call call(Op::logsumexp, {x});
  const Tensor last = axis_last(call[0], at);
  Shape kept = x.shape(), dropped = x.shape(), swapped = last.shape();
  kept[at] = 1;
  dropped.erase(at);
  swapped[x.rank() - 1] = 1;
  const Tensor y = Tensor::empty({rows_of(swapped).rows}, call[0].dtype(), x.device());
  if (last.size(-1) == 0) {
    backend::of(x).elementwise.fill(y, -std::numeric_limits<double>::infinity());
  } else {
    backend::of(x).softmax.logsumexp(rows(last), y);
  }
  const Tensor result = dense(axis_last(viewed(y, swapped), at));
  return call.result(viewed(result, keep ? kept : dropped), [at, kept, x = Saved(call[0]),
                                                             y = Saved(viewed(y, swapped))](
                                                                const Tensor& dy, GradSlots dx) {
    const Tensor last = axis_last(x, at);
    const Tensor gradient = Tensor::empty(last.shape(), dy.dtype(), dy.device());
    backend::of(dy).softmax.forward(SoftmaxKind::plain, rows(last), rows(gradient));
    replace_infinite_rows(last, y, gradient);
    const Tensor spread = axis_last(viewed(dense(dy), kept), at);
    backend::of(dy).elementwise.binary(backend::Binary::mul, gradient,
                                       TensorView(spread).expanded(gradient.shape()), gradient);
    dx[0].add(axis_last(gradient, at));
  });
}

}  // namespace binade
