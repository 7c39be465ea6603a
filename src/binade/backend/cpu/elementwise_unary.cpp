#include "binade/backend/cpu/elementwise_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise_unary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// Log of a number's binade and of its place in it, apart: powers of two come out exact.
HWY_INLINE V log_base(V x, double log_of_2_high, double log_of_2_low, double factor) {
  const hn::RebindToSigned<D> di;
  constexpr float subnormal_scale = 0x1p24f;
  const Mask subnormal = hn::Lt(x, constant(std::numeric_limits<float>::min()));
  const V normal = hn::IfThenElse(subnormal, hn::Mul(x, constant(subnormal_scale)), x);
  // The bits of sqrt(1/2): subtracting them rounds the exponent to the nearest binade.
  const auto middle = hn::Set(di, 0x3f3504f3);
  const auto bits = hn::BitCast(di, normal);
  const auto binade = hn::ShiftRight<23>(hn::Sub(bits, middle));
  const V mantissa = hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(binade)));
  const V exponent =
      hn::Sub(hn::ConvertTo(D(), binade), hn::IfThenElseZero(subnormal, constant(24)));
  const V fraction = hn::Mul(hn::Log(D(), mantissa), constant(factor));
  const V low = hn::MulAdd(exponent, constant(log_of_2_low), fraction);
  return log_specials(x, hn::Zero(D()), hn::MulAdd(exponent, constant(log_of_2_high), low));
}

HWY_INLINE V log2(V x) { return log_base(x, 1, 0, std::numbers::log2e); }
// The high part of log10(2) has few enough bits for its product with an exponent to be exact.
HWY_INLINE V log10(V x) {
  return log_base(x, 0.301025390625, 4.60503898119521e-6, std::numbers::log10e);
}

HWY_INLINE V outside_one(V x, V y) {
  return hn::IfThenElse(hn::Le(hn::Abs(x), constant(1)), y, constant(nan));
}

void powers(double exponent, const float* x, float* y, int64_t n) {
  map(x, y, n, [=](V v) HWY_ATTR { return pow(v, exponent); });
}

void clamp(UnaryNumbers numbers, const float* x, float* y, int64_t n) {
  const V low = constant(numbers.a), high = constant(numbers.b);
  map(x, y, n, [=](V v) HWY_ATTR {
    return hn::IfThenElse(is_nan(v), v, hn::Min(hn::Max(v, low), high));
  });
}

// clang-format off
void unary(Unary op, UnaryNumbers numbers, const float* x, float* y, int64_t n) {
  const V zero = hn::Zero(D()), one = constant(1);
  const V a = constant(numbers.a), b = constant(numbers.b);
  switch (op) {
    case Unary::neg: return map(x, y, n, [](V v) HWY_ATTR { return hn::Neg(v); });
    case Unary::abs: return map(x, y, n, [](V v) HWY_ATTR { return hn::Abs(v); });
    case Unary::sign: return map(x, y, n, [](V v) HWY_ATTR { return sign(v); });
    case Unary::square: return map(x, y, n, [](V v) HWY_ATTR { return hn::Mul(v, v); });
    case Unary::sqrt: return map(x, y, n, [](V v) HWY_ATTR { return hn::Sqrt(v); });
    case Unary::rsqrt: return map(x, y, n, [=](V v) HWY_ATTR { return hn::Div(one, hn::Sqrt(v)); });
    case Unary::reciprocal: return map(x, y, n, [=](V v) HWY_ATTR { return hn::Div(one, v); });
    case Unary::exp: return map(x, y, n, [](V v) HWY_ATTR { return exp(v); });
    case Unary::expm1: return map(x, y, n, [](V v) HWY_ATTR { return expm1(v); });
    case Unary::log: return map(x, y, n, [](V v) HWY_ATTR { return log(v); });
    case Unary::log2: return map(x, y, n, [](V v) HWY_ATTR { return log2(v); });
    case Unary::log10: return map(x, y, n, [](V v) HWY_ATTR { return log10(v); });
    case Unary::log1p: return map(x, y, n, [](V v) HWY_ATTR { return log1p(v); });
    case Unary::sin: return map(x, y, n, [](V v) HWY_ATTR { return sin(v); });
    case Unary::cos: return map(x, y, n, [](V v) HWY_ATTR { return cos(v); });
    case Unary::asin: return map(x, y, n, [](V v) HWY_ATTR { return outside_one(v, hn::Asin(D(), v)); });
    case Unary::acos: return map(x, y, n, [](V v) HWY_ATTR { return outside_one(v, hn::Acos(D(), v)); });
    case Unary::atan: return map(x, y, n, [](V v) HWY_ATTR { return hn::Atan(D(), v); });
    case Unary::tanh: return map(x, y, n, [](V v) HWY_ATTR { return tanh(v); });
    case Unary::erf: return map(x, y, n, [](V v) HWY_ATTR { return erf(v); });
    case Unary::tan: return map(x, y, n, [](V v) HWY_ATTR { return by_lane(v, [](float l) { return std::tan(l); }); });
    case Unary::sinh: return map(x, y, n, [](V v) HWY_ATTR { return by_lane(v, [](float l) { return std::sinh(l); }); });
    case Unary::cosh: return map(x, y, n, [](V v) HWY_ATTR { return by_lane(v, [](float l) { return std::cosh(l); }); });
    case Unary::erfinv: return map(x, y, n, [](V v) HWY_ATTR { return by_lane(v, [](float l) { return static_cast<float>(inverse_erf(l)); }); });
    case Unary::sigmoid: return map(x, y, n, [](V v) HWY_ATTR { return sigmoid(D(), v); });
    case Unary::relu: return map(x, y, n, [=](V v) HWY_ATTR { return hn::IfThenElse(hn::Le(v, zero), zero, v); });
    case Unary::leaky_relu: return map(x, y, n, [=](V v) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, zero), v, hn::Mul(v, a)); });
    case Unary::gelu: return map(x, y, n, [](V v) HWY_ATTR { return hn::Mul(v, normal_distribution(D(), v).cumulative); });
    case Unary::gelu_tanh: return map(x, y, n, [](V v) HWY_ATTR { return hn::Mul(v, gelu_tanh_gate(v)); });
    case Unary::silu: return map(x, y, n, [](V v) HWY_ATTR { return hn::Mul(v, sigmoid(D(), v)); });
    case Unary::softplus: return map(x, y, n, [](V v) HWY_ATTR { return softplus(v); });
    case Unary::pow: return powers(numbers.a, x, y, n);
    case Unary::clamp: return clamp(numbers, x, y, n);
    case Unary::scale: return map(x, y, n, [=](V v) HWY_ATTR { return hn::MulAdd(v, a, b); });
    case Unary::floor: return map(x, y, n, [](V v) HWY_ATTR { return hn::Floor(v); });
    case Unary::ceil: return map(x, y, n, [](V v) HWY_ATTR { return hn::Ceil(v); });
    case Unary::round: return map(x, y, n, [](V v) HWY_ATTR { return hn::Round(v); });
    case Unary::trunc: return map(x, y, n, [](V v) HWY_ATTR { return hn::Trunc(v); });
    case Unary::is_finite: return map(x, y, n, [](V v) HWY_ATTR { return one_or_zero(hn::Lt(hn::Abs(v), constant(infinity))); });
    case Unary::is_nan: return map(x, y, n, [](V v) HWY_ATTR { return one_or_zero(is_nan(v)); });
    case Unary::is_inf: return map(x, y, n, [](V v) HWY_ATTR { return one_or_zero(hn::Eq(hn::Abs(v), constant(infinity))); });
    case Unary::logical_not: return map(x, y, n, [=](V v) HWY_ATTR { return one_or_zero(hn::Eq(v, zero)); });
  }
}
// clang-format on

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(unary);

void unary_block(Unary op, UnaryNumbers numbers, const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(unary)(op, numbers, x, y, n);
}

}  // namespace binade::backend::cpu
#endif
