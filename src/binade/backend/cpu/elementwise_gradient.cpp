#include "binade/backend/cpu/elementwise_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise_gradient.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// 1 - x^2 as a product, which keeps its digits near 1.
HWY_INLINE V one_minus_square(V x) {
  return hn::Mul(hn::Sub(constant(1), x), hn::Add(constant(1), x));
}

HWY_INLINE V gelu_gradient(V dy, V x) {
  const auto normal = normal_distribution(D(), x);
  return hn::Mul(dy, hn::MulAdd(x, normal.density, normal.cumulative));
}

HWY_INLINE V gelu_tanh_gradient(V dy, V x) {
  // Past 20 the derivative is 0 or 1; bounding x keeps its square finite.
  const V bounded = hn::IfThenElse(is_nan(x), x, hn::Clamp(x, constant(-20), constant(20)));
  const V gate = gelu_tanh_gate(bounded);
  const V slope = hn::MulAdd(hn::Mul(bounded, bounded), constant(3 * gelu_slope * gelu_cubic),
                             constant(gelu_slope));
  const V curve = hn::Mul(hn::Mul(bounded, slope), hn::Sub(constant(1), gate));
  return hn::Mul(dy, hn::MulAdd(gate, curve, gate));
}

HWY_INLINE V silu_gradient(V dy, V x) {
  const V gate = sigmoid(D(), x);
  const V curve = hn::Mul(x, hn::Sub(constant(1), gate));
  return hn::Mul(dy, hn::MulAdd(gate, curve, gate));
}

void power_gradient(double exponent, const float* dy, const float* x, float* dx, int64_t n) {
  if (exponent == 0) return map(dy, dx, n, [](V) HWY_ATTR { return hn::Zero(D()); });
  const V factor = constant(exponent);
  map(dy, x, dx, n,
      [=](V g, V v) HWY_ATTR { return hn::Mul(g, hn::Mul(factor, pow(v, exponent - 1))); });
}

void clamp_gradient(UnaryNumbers numbers, const float* dy, const float* x, float* dx, int64_t n) {
  const V low = constant(numbers.a), high = constant(numbers.b);
  map(dy, x, dx, n, [=](V g, V v) HWY_ATTR {
    return hn::IfThenElseZero(hn::And(hn::Ge(v, low), hn::Le(v, high)), g);
  });
}

// clang-format off
void gradient(Unary op, UnaryNumbers numbers, const float* dy, const float* s, float* dx, int64_t n) {
  const V zero = hn::Zero(D()), one = constant(1), a = constant(numbers.a);
  switch (op) {
    // From the output y.
    case Unary::sqrt: return map(dy, s, dx, n, [](V g, V y) HWY_ATTR { return hn::Div(hn::Mul(g, constant(0.5)), y); });
    case Unary::rsqrt: return map(dy, s, dx, n, [](V g, V y) HWY_ATTR { return hn::Mul(hn::Mul(hn::Mul(hn::Mul(g, constant(-0.5)), y), y), y); });
    case Unary::reciprocal: return map(dy, s, dx, n, [](V g, V y) HWY_ATTR { return hn::Mul(hn::Neg(g), hn::Mul(y, y)); });
    case Unary::exp: return map(dy, s, dx, n, [](V g, V y) HWY_ATTR { return hn::Mul(g, y); });
    case Unary::expm1: return map(dy, s, dx, n, [=](V g, V y) HWY_ATTR { return hn::Mul(g, hn::Add(y, one)); });
    case Unary::tan: return map(dy, s, dx, n, [=](V g, V y) HWY_ATTR { return hn::Mul(g, hn::MulAdd(y, y, one)); });
    case Unary::tanh: return map(dy, s, dx, n, [](V g, V y) HWY_ATTR { return hn::Mul(g, one_minus_square(y)); });
    case Unary::sigmoid: return map(dy, s, dx, n, [=](V g, V y) HWY_ATTR { return hn::Mul(g, hn::Mul(y, hn::Sub(one, y))); });
    case Unary::erfinv: return map(dy, s, dx, n, [](V g, V y) HWY_ATTR { return hn::Mul(g, hn::Mul(constant(0.5 / std::numbers::inv_sqrtpi), exp(hn::Mul(y, y)))); });
    // From the input x.
    case Unary::neg: return map(dy, dx, n, [](V g) HWY_ATTR { return hn::Neg(g); });
    case Unary::abs: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, sign(x)); });
    case Unary::square: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, hn::Add(x, x)); });
    case Unary::log: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Div(g, x); });
    case Unary::log2: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Div(hn::Mul(g, constant(std::numbers::log2e)), x); });
    case Unary::log10: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Div(hn::Mul(g, constant(std::numbers::log10e)), x); });
    case Unary::log1p: return map(dy, s, dx, n, [=](V g, V x) HWY_ATTR { return hn::Div(g, hn::Add(x, one)); });
    case Unary::sin: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, cos(x)); });
    case Unary::cos: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(hn::Neg(g), sin(x)); });
    case Unary::asin: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Div(g, hn::Sqrt(one_minus_square(x))); });
    case Unary::acos: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Div(hn::Neg(g), hn::Sqrt(one_minus_square(x))); });
    case Unary::atan: return map(dy, s, dx, n, [=](V g, V x) HWY_ATTR { return hn::Div(g, hn::MulAdd(x, x, one)); });
    case Unary::sinh: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, by_lane(x, [](float l) { return std::cosh(l); })); });
    case Unary::cosh: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, by_lane(x, [](float l) { return std::sinh(l); })); });
    case Unary::erf: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, hn::Mul(constant(2 * std::numbers::inv_sqrtpi), exp(hn::Neg(hn::Mul(x, x))))); });
    case Unary::relu: return map(dy, s, dx, n, [=](V g, V x) HWY_ATTR { return hn::IfThenZeroElse(hn::Le(x, zero), g); });
    case Unary::leaky_relu: return map(dy, s, dx, n, [=](V g, V x) HWY_ATTR { return hn::IfThenElse(hn::Gt(x, zero), g, hn::Mul(g, a)); });
    case Unary::gelu: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return gelu_gradient(g, x); });
    case Unary::gelu_tanh: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return gelu_tanh_gradient(g, x); });
    case Unary::silu: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return silu_gradient(g, x); });
    case Unary::softplus: return map(dy, s, dx, n, [](V g, V x) HWY_ATTR { return hn::Mul(g, sigmoid(D(), x)); });
    case Unary::pow: return power_gradient(numbers.a, dy, s, dx, n);
    case Unary::clamp: return clamp_gradient(numbers, dy, s, dx, n);
    case Unary::scale: return map(dy, dx, n, [=](V g) HWY_ATTR { return hn::Mul(g, a); });
    case Unary::sign: case Unary::floor: case Unary::ceil: case Unary::round: case Unary::trunc:
    case Unary::is_finite: case Unary::is_nan: case Unary::is_inf: case Unary::logical_not:
      return map(dy, dx, n, [=](V) HWY_ATTR { return zero; });
  }
}
// clang-format on

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(gradient);

void gradient_block(Unary op, UnaryNumbers numbers, const float* dy, const float* saved, float* dx,
                    int64_t n) {
  HWY_DYNAMIC_DISPATCH(gradient)(op, numbers, dy, saved, dx, n);
}

}  // namespace binade::backend::cpu
#endif
