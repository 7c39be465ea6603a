// Vector functions of float lanes, right for every argument: NaN, infinities and numbers past the
// range of the approximations included. For code compiled once per instruction set: include this
// below hwy/foreach_target.h.

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
// True where either is NaN, unlike the library's Ne on some instruction sets.
HWY_INLINE Mask differ(V a, V b) { return hn::Not(hn::Eq(a, b)); }

HWY_INLINE V sign(V x) {
  const V magnitude = hn::IfThenElseZero(differ(x, hn::Zero(D())), constant(1));
  return hn::IfThenElse(is_nan(x), x, hn::CopySign(magnitude, x));
}

// Calls f for each lane: for functions too rare to have a vector form.
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

// As full_exp: the library takes no argument above 104.
HWY_INLINE V expm1(V x) {
  const V y = hn::Expm1(D(), hn::Min(x, constant(104)));
  return hn::IfThenElse(is_nan(x), x, y);
}

// A logarithm with a pole: f where it is finite (f never sees anything else), and what it is there.
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

// The library reduces arguments up to 39000 well; whole turns past that are for the C library.
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

// log(1 + exp(x)) where neither overflows nor loses small results.
HWY_INLINE V softplus(V x) {
  return hn::Add(hn::Max(x, hn::Zero(D())), log1p(exp(hn::Neg(hn::Abs(x)))));
}

// Near 0 x * P(x^2), P a minimax polynomial for [-1, 1]; else from the normal distribution's tail.
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

// x^exponent; the exponents people use need no logarithm.
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
