// Functions of vectors, compiled once per instruction set: polynomials for float; the C library,
// lane by lane, for double, which serves reference results. Included inside Highway's
// foreach_target, hence a guard that toggles.
#if defined(BINADE_BACKEND_CPU_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_BACKEND_CPU_VECTOR_MATH_INL
#undef BINADE_BACKEND_CPU_VECTOR_MATH_INL
#else
#define BINADE_BACKEND_CPU_VECTOR_MATH_INL
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class F>
HWY_INLINE hn::Vec<D> map_lanes(D d, hn::Vec<D> v, F f) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (auto& lane : lanes) lane = f(lane);
  return hn::Load(d, lanes);
}

// e^x for every x: 0 if it underflows, infinity if it overflows, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> full_exp(D d, hn::Vec<D> x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    return map_lanes(d, x, [](double v) { return std::exp(v); });
  } else {
    // Highway's Exp is valid up to 104, above the overflow, and returns 0 for NaN.
    const auto y = hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f)));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
}

// e^x for x up to 88.376, in half the operations, to two units in the last place: 0 if the result
// is below the smallest normal number, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> fast_exp_below(D d, hn::Vec<D> x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    return full_exp(d, x);
  } else {
    using V = hn::Vec<D>;
    const hn::RebindToSigned<D> di;
    // x = n ln 2 + r; the sum with 1.5 * 2^23 + 127 rounds to n and holds 2^n's exponent in its low
    // bits. The high part of ln 2 has so few bits that n times it is exact.
    const V rounder = hn::Set(d, 0x1.8p23f + 127);
    const V shifted = hn::MulAdd(x, hn::Set(d, static_cast<float>(std::numbers::log2e)), rounder);
    const V n = hn::Sub(shifted, rounder);
    constexpr double ln2_high = 0x1.63p-1;
    V r = hn::NegMulAdd(n, hn::Set(d, static_cast<float>(ln2_high)), x);
    r = hn::NegMulAdd(n, hn::Set(d, static_cast<float>(std::numbers::ln2 - ln2_high)), r);
    // A minimax fit of e^r = 1 + r + r^2 q(r) with a relative error under 2^-28.
    // The terms are paired to shorten the chain of dependent operations.
    const V square = hn::Mul(r, r);
    const V low = hn::MulAdd(r, hn::Set(d, 0.166665203f), hn::Set(d, 0.499999934f));
    const V high = hn::MulAdd(r, hn::Set(d, 0.00836875842f), hn::Set(d, 0.0416683912f));
    const V top = hn::MulAdd(square, hn::Set(d, 0.00138145851f), high);
    const V q = hn::MulAdd(square, top, low);
    const V p = hn::MulAdd(square, q, hn::Add(r, hn::Set(d, 1.0f)));
    const V y = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
    // If the exponent underflows, y is arbitrary; a NaN reaches y through p.
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365f)), y);
  }
}

// fast_exp_below() for every x; infinity from 2^127.5 on.
template <class D>
HWY_INLINE hn::Vec<D> fast_exp(D d, hn::Vec<D> x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    return full_exp(d, x);
  } else {
    const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
    return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.376f)), infinity, fast_exp_below(d, x));
  }
}

// 2^x for x below 127, in still fewer operations and as accurate: 0 if the result is below the
// smallest normal number, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> fast_exp2(D d, hn::Vec<D> x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    return map_lanes(d, x, [](double v) { return std::exp2(v); });
  } else {
    using V = hn::Vec<D>;
    const hn::RebindToSigned<D> di;
    // x = n + r; the sum with 1.5 * 2^23 + 127 rounds to n and holds 2^n's exponent in its low
    // bits.
    const V rounder = hn::Set(d, 0x1.8p23f + 127);
    const V shifted = hn::Add(x, rounder);
    const V r = hn::Sub(x, hn::Sub(shifted, rounder));
    // A minimax fit of 2^r = 1 + r q(r) with a relative error under 2^-25; terms paired as above.
    const V square = hn::Mul(r, r);
    const V line = hn::MulAdd(r, hn::Set(d, 0.693147182f), hn::Set(d, 1.0f));
    const V low = hn::MulAdd(r, hn::Set(d, 0.0555033237f), hn::Set(d, 0.240226477f));
    const V high = hn::MulAdd(r, hn::Set(d, 0.00133988739f), hn::Set(d, 0.00961843692f));
    const V top = hn::MulAdd(square, hn::Set(d, 0.000153533620f), high);
    const V p = hn::MulAdd(square, hn::MulAdd(square, top, low), line);
    const V y = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), y);
  }
}

// 1 / (1 + e^-x)
template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  return hn::Div(one, hn::Add(one, fast_exp(d, hn::Neg(x))));
}

// The standard normal distribution at x.
template <class D>
struct Normal {
  hn::Vec<D> cumulative;
  hn::Vec<D> density;
};

// For z >= 0, erfc(z) = e^(-z^2) t P(t) with t = 1 / (1 + 0.34 z); P's relative error is under
// 2^-27 unless erfc underflows. Using erfc keeps the left tail accurate.
template <class D>
HWY_INLINE Normal<D> normal_distribution(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  constexpr double inv_sqrt2pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  if constexpr (std::is_same_v<T, double>) {
    return {map_lanes(d, x, [](double v) { return 0.5 * std::erfc(-v / std::numbers::sqrt2); }),
            map_lanes(d, x, [](double v) { return inv_sqrt2pi * std::exp(-0.5 * v * v); })};
  } else {
    constexpr float coefficients[] = {0.1918173439f,  0.1920225759f, 0.1783828673f,  0.1743536747f,
                                      0.0608735900f,  0.2727591288f, -0.2749787068f, 0.3991674435f,
                                      -0.2449050529f, 0.0505071386f};
    using V = hn::Vec<D>;
    const V one = hn::Set(d, 1.0f);
    const V factor = hn::Set(d, static_cast<float>(0.34 / std::numbers::sqrt2));
    const V t = hn::Div(one, hn::MulAdd(hn::Abs(x), factor, one));
    // Half of P, its terms paired as above.
    const V square = hn::Mul(t, t);
    const auto pair = [&](int i) HWY_ATTR {
      return hn::MulAdd(t, hn::Set(d, coefficients[i + 1] / 2), hn::Set(d, coefficients[i] / 2));
    };
    V p = hn::MulAdd(square, pair(8), pair(6));
    for (int i = 4; i >= 0; i -= 2) p = hn::MulAdd(square, p, pair(i));
    const V gauss = fast_exp_below(d, hn::Mul(hn::Mul(hn::Set(d, -0.5f), x), x));
    const V tail = hn::Mul(gauss, hn::Mul(t, p));
    const auto negative = hn::Lt(x, hn::Zero(d));
    return {hn::IfThenElse(negative, tail, hn::Sub(one, tail)),
            hn::Mul(gauss, hn::Set(d, static_cast<float>(inv_sqrt2pi)))};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
