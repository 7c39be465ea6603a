#include "binade/backend/cpu/elementwise/blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binade/backend/cpu/elementwise/unary.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Below foreach_target.h, which this relies on.
#include "binade/backend/cpu/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {
namespace {

// Log of a positive number's binade and of its place in it, apart: powers of two come out exact.
HWY_INLINE V log_by_binade(V x, double log_of_2_high, double log_of_2_low, double factor) {
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
  return hn::MulAdd(exponent, constant(log_of_2_high), low);
}

HWY_INLINE V log2(V x) {
  return log_with_pole(x, hn::Zero(D()),
                       [](V v) HWY_ATTR { return log_by_binade(v, 1, 0, std::numbers::log2e); });
}
// The high part of log10(2) has few enough bits for its product with an exponent to be exact.
HWY_INLINE V log10(V x) {
  return log_with_pole(x, hn::Zero(D()), [](V v) HWY_ATTR {
    return log_by_binade(v, 0.301025390625, 4.60503898119521e-6, std::numbers::log10e);
  });
}

// y where the arc functions have a value, NaN elsewhere.
HWY_INLINE V within_one(V x, V y) {
  return hn::IfThenElse(hn::Le(hn::Abs(x), constant(1)), y, constant(nan));
}
HWY_INLINE V asin(V x) { return within_one(x, hn::Asin(D(), x)); }
HWY_INLINE V acos(V x) { return within_one(x, hn::Acos(D(), x)); }

HWY_INLINE V tan(V x) {
  return by_lane(x, [](float v) { return std::tan(v); });
}
HWY_INLINE V erfinv(V x) {
  return by_lane(x, [](float v) { return static_cast<float>(inverse_erf(v)); });
}

HWY_INLINE V leaky_relu(V x, V slope) {
  return hn::IfThenElse(hn::Gt(x, hn::Zero(D())), x, hn::Mul(x, slope));
}

HWY_INLINE V clamp(V x, V low, V high) {
  return hn::IfThenElse(is_nan(x), x, hn::Min(hn::Max(x, low), high));
}

HWY_INLINE Mask is_finite(V x) { return hn::Lt(hn::Abs(x), constant(infinity)); }
HWY_INLINE Mask is_inf(V x) { return hn::Eq(hn::Abs(x), constant(infinity)); }

// clang-format off
void unary(Unary op, UnaryParams numbers, const float* x, float* y, int64_t n) {
  const V zero = hn::Zero(D()), one = constant(1);
  const V a = constant(numbers.a), b = constant(numbers.b);
  const auto each = [=](auto f) HWY_ATTR { map(x, y, n, f); };
  switch (op) {
    case Unary::neg: return each([](V v) HWY_ATTR { return hn::Neg(v); });
    case Unary::abs: return each([](V v) HWY_ATTR { return hn::Abs(v); });
    case Unary::sign: return each([](V v) HWY_ATTR { return sign(v); });
    case Unary::square: return each([](V v) HWY_ATTR { return hn::Mul(v, v); });
    case Unary::sqrt: return each([](V v) HWY_ATTR { return hn::Sqrt(v); });
    case Unary::rsqrt: return each([=](V v) HWY_ATTR { return hn::Div(one, hn::Sqrt(v)); });
    case Unary::reciprocal: return each([=](V v) HWY_ATTR { return hn::Div(one, v); });
    case Unary::exp: return each([](V v) HWY_ATTR { return exp(v); });
    case Unary::expm1: return each([](V v) HWY_ATTR { return expm1(v); });
    case Unary::log: return each([](V v) HWY_ATTR { return log(v); });
    case Unary::log2: return each([](V v) HWY_ATTR { return log2(v); });
    case Unary::log10: return each([](V v) HWY_ATTR { return log10(v); });
    case Unary::log1p: return each([](V v) HWY_ATTR { return log1p(v); });
    case Unary::sin: return each([](V v) HWY_ATTR { return sin(v); });
    case Unary::cos: return each([](V v) HWY_ATTR { return cos(v); });
    case Unary::asin: return each([](V v) HWY_ATTR { return asin(v); });
    case Unary::acos: return each([](V v) HWY_ATTR { return acos(v); });
    case Unary::atan: return each([](V v) HWY_ATTR { return hn::Atan(D(), v); });
    case Unary::tanh: return each([](V v) HWY_ATTR { return tanh(v); });
    case Unary::erf: return each([](V v) HWY_ATTR { return erf(v); });
    case Unary::tan: return each([](V v) HWY_ATTR { return tan(v); });
    case Unary::sinh: return each([](V v) HWY_ATTR { return sinh(v); });
    case Unary::cosh: return each([](V v) HWY_ATTR { return cosh(v); });
    case Unary::erfinv: return each([](V v) HWY_ATTR { return erfinv(v); });
    case Unary::sigmoid: return each([](V v) HWY_ATTR { return sigmoid(D(), v); });
    case Unary::relu: return each([](V v) HWY_ATTR { return relu(D(), v); });
    case Unary::leaky_relu: return each([=](V v) HWY_ATTR { return leaky_relu(v, a); });
    case Unary::gelu: return each([](V v) HWY_ATTR { return gelu(D(), v); });
    case Unary::gelu_tanh: return each([](V v) HWY_ATTR { return gelu_tanh(D(), v); });
    case Unary::silu: return each([](V v) HWY_ATTR { return silu(D(), v); });
    case Unary::softplus: return each([](V v) HWY_ATTR { return softplus(v); });
    case Unary::pow: return each([=](V v) HWY_ATTR { return pow(v, numbers.a); });
    case Unary::clamp: return each([=](V v) HWY_ATTR { return clamp(v, a, b); });
    case Unary::scale: return each([=](V v) HWY_ATTR { return hn::MulAdd(v, a, b); });
    case Unary::floor: return each([](V v) HWY_ATTR { return hn::Floor(v); });
    case Unary::ceil: return each([](V v) HWY_ATTR { return hn::Ceil(v); });
    case Unary::round: return each([](V v) HWY_ATTR { return hn::Round(v); });
    case Unary::trunc: return each([](V v) HWY_ATTR { return hn::Trunc(v); });
    case Unary::is_finite: return each([](V v) HWY_ATTR { return one_or_zero(is_finite(v)); });
    case Unary::is_nan: return each([](V v) HWY_ATTR { return one_or_zero(is_nan(v)); });
    case Unary::is_inf: return each([](V v) HWY_ATTR { return one_or_zero(is_inf(v)); });
    case Unary::logical_not:
      return each([=](V v) HWY_ATTR { return one_or_zero(hn::Eq(v, zero)); });
  }
}
// clang-format on

}  // namespace
}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace binade::backend::cpu {

HWY_EXPORT(unary);

void unary_block(Unary op, UnaryParams numbers, const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(unary)(op, numbers, x, y, n);
}

}  // namespace binade::backend::cpu
#endif
