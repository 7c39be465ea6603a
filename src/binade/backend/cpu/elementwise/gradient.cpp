#include "binade/backend/cpu/elementwise/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise/gradient.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// 1 - x^2 as a product, which keeps its digits near 1.
HWY_INLINE V one_minus_square(V x) {
  return hn::Mul(hn::Sub(constant(1), x), hn::Add(constant(1), x));
}

HWY_INLINE V rsqrt_slope(V y) { return hn::Mul(hn::Mul(hn::Mul(constant(-0.5), y), y), y); }
HWY_INLINE V erfinv_slope(V y) {
  return hn::Mul(constant(0.5 / std::numbers::inv_sqrtpi), exp(hn::Mul(y, y)));
}
HWY_INLINE V erf_slope(V x) {
  return hn::Mul(constant(2 * std::numbers::inv_sqrtpi), exp(hn::Neg(hn::Mul(x, x))));
}
HWY_INLINE V asin_gradient(V dy, V x) { return hn::Div(dy, hn::Sqrt(one_minus_square(x))); }

// The gradient passes where x is NaN, as in PyTorch.
HWY_INLINE V relu_gradient(V dy, V x) { return hn::IfThenZeroElse(hn::Le(x, hn::Zero(D())), dy); }
HWY_INLINE V leaky_relu_gradient(V dy, V x, V slope) {
  return hn::IfThenElse(hn::Gt(x, hn::Zero(D())), dy, hn::Mul(dy, slope));
}
HWY_INLINE V clamp_gradient(V dy, V x, V low, V high) {
  return hn::IfThenElseZero(hn::And(hn::Ge(x, low), hn::Le(x, high)), dy);
}
HWY_INLINE V pow_gradient(V dy, V x, double exponent) {
  if (exponent == 0) return hn::Zero(D());
  return hn::Mul(dy, hn::Mul(constant(exponent), pow(x, exponent - 1)));
}

// clang-format off
void gradient(Unary op, UnaryParams numbers, const float* dy, const float* saved, float* dx,
              int64_t n) {
  const V one = constant(1), a = constant(numbers.a), b = constant(numbers.b);
  const V log2e = constant(std::numbers::log2e), log10e = constant(std::numbers::log10e);
  const auto each = [=](auto f) HWY_ATTR { map(dy, saved, dx, n, f); };
  switch (op) {
    // From the output y.
    case Unary::sqrt:
      return each([](V g, V y) HWY_ATTR { return hn::Div(hn::Mul(g, constant(0.5)), y); });
    case Unary::rsqrt: return each([](V g, V y) HWY_ATTR { return hn::Mul(g, rsqrt_slope(y)); });
    case Unary::reciprocal:
      return each([](V g, V y) HWY_ATTR { return hn::Mul(hn::Neg(g), hn::Mul(y, y)); });
    case Unary::exp: return each([](V g, V y) HWY_ATTR { return hn::Mul(g, y); });
    case Unary::expm1: return each([=](V g, V y) HWY_ATTR { return hn::Mul(g, hn::Add(y, one)); });
    case Unary::tan:
      return each([=](V g, V y) HWY_ATTR { return hn::Mul(g, hn::MulAdd(y, y, one)); });
    case Unary::tanh:
      return each([](V g, V y) HWY_ATTR { return hn::Mul(g, one_minus_square(y)); });
    case Unary::sigmoid:
      return each([=](V g, V y) HWY_ATTR { return hn::Mul(g, hn::Mul(y, hn::Sub(one, y))); });
    case Unary::erfinv: return each([](V g, V y) HWY_ATTR { return hn::Mul(g, erfinv_slope(y)); });
    // From the input x.
    case Unary::neg: return each([](V g, V) HWY_ATTR { return hn::Neg(g); });
    case Unary::abs: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, sign(x)); });
    case Unary::square: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, hn::Add(x, x)); });
    case Unary::log: return each([](V g, V x) HWY_ATTR { return hn::Div(g, x); });
    case Unary::log2: return each([=](V g, V x) HWY_ATTR { return hn::Div(hn::Mul(g, log2e), x); });
    case Unary::log10:
      return each([=](V g, V x) HWY_ATTR { return hn::Div(hn::Mul(g, log10e), x); });
    case Unary::log1p: return each([=](V g, V x) HWY_ATTR { return hn::Div(g, hn::Add(x, one)); });
    case Unary::sin: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, cos(x)); });
    case Unary::cos: return each([](V g, V x) HWY_ATTR { return hn::Mul(hn::Neg(g), sin(x)); });
    case Unary::asin: return each([](V g, V x) HWY_ATTR { return asin_gradient(g, x); });
    case Unary::acos: return each([](V g, V x) HWY_ATTR { return hn::Neg(asin_gradient(g, x)); });
    case Unary::atan:
      return each([=](V g, V x) HWY_ATTR { return hn::Div(g, hn::MulAdd(x, x, one)); });
    case Unary::sinh: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, cosh(x)); });
    case Unary::cosh: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, sinh(x)); });
    case Unary::erf: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, erf_slope(x)); });
    case Unary::relu: return each([](V g, V x) HWY_ATTR { return relu_gradient(g, x); });
    case Unary::leaky_relu:
      return each([=](V g, V x) HWY_ATTR { return leaky_relu_gradient(g, x, a); });
    case Unary::gelu: return each([](V g, V x) HWY_ATTR { return hn::Mul(g, gelu_slope(D(), x)); });
    case Unary::gelu_tanh:
      return each([](V g, V x) HWY_ATTR { return hn::Mul(g, gelu_tanh_slope(D(), x)); });
    case Unary::silu: 
      return each([](V g, V x) HWY_ATTR { return hn::Mul(g, silu_slope(D(), x, sigmoid(D(), x))); });
    case Unary::softplus:
      return each([](V g, V x) HWY_ATTR { return hn::Mul(g, sigmoid(D(), x)); });
    case Unary::pow: return each([=](V g, V x) HWY_ATTR { return pow_gradient(g, x, numbers.a); });
    case Unary::clamp: return each([=](V g, V x) HWY_ATTR { return clamp_gradient(g, x, a, b); });
    case Unary::scale: return each([=](V g, V) HWY_ATTR { return hn::Mul(g, a); });
    case Unary::sign: case Unary::floor: case Unary::ceil: case Unary::round: case Unary::trunc:
    case Unary::is_finite: case Unary::is_nan: case Unary::is_inf: case Unary::logical_not:
      return each([](V, V) HWY_ATTR { return hn::Zero(D()); });
  }
}
// clang-format on

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(gradient);

void gradient_block(Unary op, UnaryParams numbers, const float* dy, const float* saved, float* dx,
                    int64_t n) {
  HWY_DYNAMIC_DISPATCH(gradient)(op, numbers, dy, saved, dx, n);
}

}  // namespace binade::backend::cpu
#endif
