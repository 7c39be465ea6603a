#include "binade/ops/elementwise/unary.h"

#include <fmt/format.h>

#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"

namespace binade {
namespace {

using namespace ops;
using backend::Unary;
using backend::UnaryParams;

Tensor compute(Unary kernel, UnaryParams params, const Tensor& x, DType dtype) {
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  backend::of(x).elementwise.unary(kernel, params, x, y);
  return y;
}

Tensor unary(Op op, Unary kernel, const Tensor& x, UnaryParams params = {}) {
  require_compute(name(op), "x", x);
  const Call call(op, {x});
  const Tensor y = compute(kernel, params, call[0], call[0].dtype());
  const Saved saved = backend::saves_output(kernel) ? y : call[0];
  return call.result(y, [kernel, params, saved](const Tensor& dy, GradSlots dx) {
    backend::of(dy).elementwise.unary_backward(kernel, params, dy, saved, target_of(dx[0]));
  });
}

// Functions that map integers to integers, exactly; bool has none of them.
void require_signed_number(Op op, const Tensor& x) {
  require_defined(name(op), "x", x);
  if (x.dtype() == DType::boolean) {
    fail(name(op), {.argument = "x",
                    .expected = "numbers",
                    .found = describe(x),
                    .hint = "logical_not() negates bools"});
  }
  if (is_floating(x.dtype())) require_compute(name(op), "x", x);
}

Tensor whole_or_unary(Op op, Unary kernel, const Tensor& x, UnaryParams params = {}) {
  require_signed_number(op, x);
  if (is_compute(x.dtype())) return unary(op, kernel, x, params);
  const Call call(op, {x});
  return call.result(compute(kernel, params, x, x.dtype()));
}

// Functions whose derivative is zero wherever it exists.
Tensor step_function(Op op, Unary kernel, const Tensor& x) {
  require_signed_number(op, x);
  const Call call(op, {x});
  return call.result(compute(kernel, {}, call[0], call[0].dtype()),
                     [](const Tensor& dy, GradSlots dx) {
                       const Tensor zeros = Tensor::empty_like(dy);
                       backend::of(dy).elementwise.fill(zeros, 0);
                       dx[0].add(zeros);
                     });
}

Tensor predicate(Op op, Unary kernel, const Tensor& x) {
  require_defined(name(op), "x", x);
  const Call call(op, {x});
  return call.result(compute(kernel, {}, call[0], DType::boolean));
}

}  // namespace

Tensor neg(const Tensor& x) { return whole_or_unary(Op::neg, Unary::neg, x); }
Tensor abs(const Tensor& x) { return whole_or_unary(Op::abs, Unary::abs, x); }
Tensor sign(const Tensor& x) { return step_function(Op::sign, Unary::sign, x); }
Tensor square(const Tensor& x) { return whole_or_unary(Op::square, Unary::square, x); }
Tensor sqrt(const Tensor& x) { return unary(Op::sqrt, Unary::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary(Op::rsqrt, Unary::rsqrt, x); }
Tensor reciprocal(const Tensor& x) { return unary(Op::reciprocal, Unary::reciprocal, x); }
Tensor exp(const Tensor& x) { return unary(Op::exp, Unary::exp, x); }
Tensor expm1(const Tensor& x) { return unary(Op::expm1, Unary::expm1, x); }
Tensor log(const Tensor& x) { return unary(Op::log, Unary::log, x); }
Tensor log2(const Tensor& x) { return unary(Op::log2, Unary::log2, x); }
Tensor log10(const Tensor& x) { return unary(Op::log10, Unary::log10, x); }
Tensor log1p(const Tensor& x) { return unary(Op::log1p, Unary::log1p, x); }
Tensor sin(const Tensor& x) { return unary(Op::sin, Unary::sin, x); }
Tensor cos(const Tensor& x) { return unary(Op::cos, Unary::cos, x); }
Tensor tan(const Tensor& x) { return unary(Op::tan, Unary::tan, x); }
Tensor asin(const Tensor& x) { return unary(Op::asin, Unary::asin, x); }
Tensor acos(const Tensor& x) { return unary(Op::acos, Unary::acos, x); }
Tensor atan(const Tensor& x) { return unary(Op::atan, Unary::atan, x); }
Tensor sinh(const Tensor& x) { return unary(Op::sinh, Unary::sinh, x); }
Tensor cosh(const Tensor& x) { return unary(Op::cosh, Unary::cosh, x); }
Tensor tanh(const Tensor& x) { return unary(Op::tanh, Unary::tanh, x); }
Tensor erf(const Tensor& x) { return unary(Op::erf, Unary::erf, x); }
Tensor erfinv(const Tensor& x) { return unary(Op::erfinv, Unary::erfinv, x); }
Tensor sigmoid(const Tensor& x) { return unary(Op::sigmoid, Unary::sigmoid, x); }
Tensor relu(const Tensor& x) { return whole_or_unary(Op::relu, Unary::relu, x); }
Tensor silu(const Tensor& x) { return unary(Op::silu, Unary::silu, x); }
Tensor softplus(const Tensor& x) { return unary(Op::softplus, Unary::softplus, x); }

Tensor leaky_relu(const Tensor& x, double slope) {
  require_finite("leaky_relu", "slope", slope);
  return unary(Op::leaky_relu, Unary::leaky_relu, x, {slope, 0});
}

Tensor gelu(const Tensor& x, Gelu form) {
  return unary(Op::gelu, form == Gelu::erf ? Unary::gelu : Unary::gelu_tanh, x);
}

Tensor pow(const Tensor& x, double exponent) {
  require_finite("pow", "exponent", exponent);
  if (x.defined() && !is_floating(x.dtype())) return pow(cast(x, DType::f32), exponent);
  return unary(Op::pow, Unary::pow, x, {exponent, 0});
}

Tensor whole_pow(const Tensor& x, int64_t exponent) {
  require_defined("pow", "x", x);
  if (is_floating(x.dtype())) return pow(x, static_cast<double>(exponent));
  if (exponent < 0) {
    fail("pow", {.argument = "exponent",
                 .expected = "at least 0 for integers",
                 .found = std::to_string(exponent),
                 .hint = "cast() x to a floating type"});
  }
  return pow(x, full({}, static_cast<double>(exponent), DType::i64, x.device()));
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high)) {
    fail("clamp", {.argument = "bounds",
                   .expected = "low <= high",
                   .found = fmt::format("{}", low) + " and " + fmt::format("{}", high)});
  }
  return whole_or_unary(Op::clamp, Unary::clamp, x, {low, high});
}

Tensor floor(const Tensor& x) { return step_function(Op::floor, Unary::floor, x); }
Tensor ceil(const Tensor& x) { return step_function(Op::ceil, Unary::ceil, x); }
Tensor round(const Tensor& x) { return step_function(Op::round, Unary::round, x); }
Tensor trunc(const Tensor& x) { return step_function(Op::trunc, Unary::trunc, x); }

Tensor is_finite(const Tensor& x) { return predicate(Op::is_finite, Unary::is_finite, x); }
Tensor is_nan(const Tensor& x) { return predicate(Op::is_nan, Unary::is_nan, x); }
Tensor is_inf(const Tensor& x) { return predicate(Op::is_inf, Unary::is_inf, x); }
Tensor logical_not(const Tensor& x) { return predicate(Op::logical_not, Unary::logical_not, x); }

// -x - 1 is what two's complement makes of the opposite bits.
Tensor bitwise_not(const Tensor& x) {
  require_integers("bitwise_not", "x", x);
  const Call call(Op::bitwise_not, {x});
  const bool is_bool = x.dtype() == DType::boolean;
  return call.result(
      is_bool ? compute(Unary::logical_not, {}, x, DType::boolean)
              : compute(Unary::scale, {-1, x.dtype() == DType::u8 ? 255.0 : -1.0}, x, x.dtype()));
}

Tensor cast(const Tensor& x, DType dtype) {
  require_defined("cast", "x", x);
  if (is_quantized(dtype) || is_quantized(x.dtype())) {
    fail("cast", {.argument = "dtype",
                  .expected = "a type of 16 bits or more",
                  .found = std::string(name(x.dtype())) + " to " + std::string(name(dtype)),
                  .hint = "this type needs a scale: use quantize() and dequantize()"});
  }
  if (x.dtype() == dtype) return x;
  const Call call(Op::cast, {x});
  const Tensor y = converted(call[0], dtype);
  if (!is_compute(dtype) || !is_compute(x.dtype())) return call.result(y);
  return call.result(y, [](const Tensor& dy, GradSlots dx) { dx[0].add(dy); });
}

}  // namespace binade
