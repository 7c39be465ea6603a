// Functions of float vectors that are right for every argument, including NaN, infinities and
// numbers outside the range of the approximations. For code compiled once per instruction set:
// include this below hwy/foreach_target.h.

// NOLINTNEXTLINE(llvm-header-guard): re-included for every target.
#if defined(BINADE_ELEMENTWISE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_ELEMENTWISE_MATH_INL_H_
#undef BINADE_ELEMENTWISE_MATH_INL_H_
#else
#define BINADE_ELEMENTWISE_MATH_INL_H_
#endif

#include <cmath>
#include <limits>
#include <numbers>

#include "binade/backend/cpu/rows/vector_math-inl.h"
#include "binade/backend/cpu/rows/vector_rows-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = hn::Mask<D>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

HWY_INLINE V constant(double value) { return hn::Set(D(), static_cast<float>(value)); }
HWY_INLINE V one_or_zero(Mask mask) { return hn::IfThenElseZero(mask, constant(1)); }
HWY_INLINE Mask is_nan(V x) { return hn::IsNaN(x); }
// True if either is NaN, unlike Highway's Ne on some instruction sets.
HWY_INLINE Mask differ(V a, V b) { return hn::Not(hn::Eq(a, b)); }

HWY_INLINE V sign(V x) {
  const V zero = hn::Zero(D());
  const Mask nonzero = hn::Or(hn::Gt(x, zero), hn::Lt(x, zero));  // neither holds for NaN
  return hn::IfThenElse(nonzero, hn::CopySign(constant(1), x), hn::IfThenZeroElse(is_nan(x), x));
}

// Calls f for each lane: for functions used too rarely to have a vector form.
template <class F>
HWY_INLINE V by_lane(V x, F f) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(x, D(), lanes);
  for (size_t i = 0; i < hn::Lanes(D()); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(D(), lanes);
}

template <class F>
HWY_INLINE V by_lane(V a, V b, F f) {
  HWY_ALIGN float left[hn::MaxLanes(D())];
  HWY_ALIGN float right[hn::MaxLanes(D())];
  hn::Store(a, D(), left);
  hn::Store(b, D(), right);
  for (size_t i = 0; i < hn::Lanes(D()); ++i) left[i] = f(left[i], right[i]);
  return hn::Load(D(), left);
}

// y = f(x) and y = f(a, b).
template <class F>
HWY_INLINE void map(const float* x, float* y, int64_t n, F f) {
  transform<float>(n, y, f, x);
}

template <class F>
HWY_INLINE void map(const float* a, const float* b, float* y, int64_t n, F f) {
  transform<float>(n, y, f, a, b);
}

HWY_INLINE V exp(V x) { return full_exp(D(), x); }

// As in full_exp: Highway's Expm1 is valid up to 104.
HWY_INLINE V expm1(V x) {
  const V y = hn::Expm1(D(), hn::Min(x, constant(104)));
  return hn::IfThenElse(is_nan(x), x, y);
}

// A logarithm: f(x) between the pole and infinity, the limits there, NaN elsewhere.
template <class F>
HWY_INLINE V log_with_pole(V x, V pole, F f) {
  const Mask inside = hn::And(hn::Gt(x, pole), hn::Lt(x, constant(infinity)));
  const V value = f(hn::IfThenElse(inside, x, constant(1)));
  const V above = hn::IfThenElse(hn::Eq(x, constant(infinity)), x, constant(nan));
  const V outside = hn::IfThenElse(hn::Eq(x, pole), constant(-infinity), above);
  return hn::IfThenElse(inside, value, outside);
}

HWY_INLINE V log(V x) {
  return log_with_pole(x, hn::Zero(D()), [](V v) HWY_ATTR { return hn::Log(D(), v); });
}
HWY_INLINE V log1p(V x) {
  return log_with_pole(x, constant(-1), [](V v) HWY_ATTR { return hn::Log1p(D(), v); });
}

// The logarithm as the sum of those of the binade and of the mantissa: exact for powers of two.
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

// y if x is in the domain of the arc functions, else NaN.
HWY_INLINE V within_one(V x, V y) {
  return hn::IfThenElse(hn::Le(hn::Abs(x), constant(1)), y, constant(nan));
}
// 1 - x^2 as a product, which is accurate near 1.
HWY_INLINE V one_minus_square(V x) {
  return hn::Mul(hn::Sub(constant(1), x), hn::Add(constant(1), x));
}

// Highway reduces arguments up to 39000 accurately; larger ones go to the C library.
constexpr float largest_angle = 39000;

HWY_INLINE V sin(V x) {
  if (HWY_UNLIKELY(!hn::AllTrue(D(), hn::Le(hn::Abs(x), constant(largest_angle))))) {
    return by_lane(x, [](float v) { return std::sin(v); });
  }
  return hn::Sin(D(), x);
}

HWY_INLINE V cos(V x) {
  if (HWY_UNLIKELY(!hn::AllTrue(D(), hn::Le(hn::Abs(x), constant(largest_angle))))) {
    return by_lane(x, [](float v) { return std::cos(v); });
  }
  return hn::Cos(D(), x);
}

HWY_INLINE V sinh(V x) {
  return by_lane(x, [](float v) { return std::sinh(v); });
}
HWY_INLINE V cosh(V x) {
  return by_lane(x, [](float v) { return std::cosh(v); });
}
HWY_INLINE V tanh(V x) { return hn::Tanh(D(), x); }

// log(1 + exp(x)), without overflow and without losing small results.
HWY_INLINE V softplus(V x) {
  return hn::Add(hn::Max(x, hn::Zero(D())), log1p(exp(hn::Neg(hn::Abs(x)))));
}

// x * P(x^2) in [-1, 1], P a minimax polynomial; else from the normal distribution's tail.
HWY_INLINE V erf(V x) {
  const V t = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V p = constant(7.853860734030604e-05);
  p = hn::MulAdd(p, square, constant(-0.0008010193705558777));
  p = hn::MulAdd(p, square, constant(0.005188327748328447));
  p = hn::MulAdd(p, square, constant(-0.026853812858462334));
  p = hn::MulAdd(p, square, constant(0.1128358542919159));
  p = hn::MulAdd(p, square, constant(-0.3761262595653534));
  p = hn::MulAdd(p, square, constant(1.1283791065216064));
  const V tail = normal_distribution(D(), hn::Mul(t, constant(-std::numbers::sqrt2))).cumulative;
  const V far = hn::CopySign(hn::NegMulAdd(tail, constant(2), constant(1)), x);
  return hn::IfThenElse(hn::Lt(t, constant(1)), hn::Mul(p, x), far);
}

// x^exponent; the common exponents need no logarithm.
HWY_INLINE V pow(V x, double exponent) {
  const V one = constant(1);
  if (exponent == 2) return hn::Mul(x, x);
  if (exponent == 1) return x;
  if (exponent == 0) return one;
  if (exponent == 3) return hn::Mul(hn::Mul(x, x), x);
  if (exponent == 0.5) return hn::Sqrt(x);
  if (exponent == -1) return hn::Div(one, x);
  if (exponent == -2) return hn::Div(one, hn::Mul(x, x));
  if (exponent == -0.5) return hn::Div(one, hn::Sqrt(x));
  const float e = static_cast<float>(exponent);
  return by_lane(x, [e](float v) { return std::pow(v, e); });
}

}  // namespace binade::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BINADE_ELEMENTWISE_MATH_INL_H_
