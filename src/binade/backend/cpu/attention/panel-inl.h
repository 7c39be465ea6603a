// Steps along a panel's rows and rounding to bf16, for tile.cpp and softmax.cpp. Included inside
// Highway's foreach_target, hence a guard that toggles.
#if defined(BINADE_BACKEND_CPU_ATTENTION_PANEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BINADE_BACKEND_CPU_ATTENTION_PANEL_INL
#undef BINADE_BACKEND_CPU_ATTENTION_PANEL_INL
#else
#define BINADE_BACKEND_CPU_ATTENTION_PANEL_INL
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "binade/base/cpu_features.h"
#include "binade/formats/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace binade::backend::cpu::attention {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using formats::HWY_NAMESPACE::Unsigned;

// Calls f(d, vectors), where `vectors` vectors make one step along a panel's rows. Steps divide a
// row evenly; several independent vectors per step hide latency.
template <class D, class F>
HWY_INLINE void with_steps_of(D d, int64_t width, F f) {
  const int64_t vectors = width / static_cast<int64_t>(hn::Lanes(d));
  if (vectors % 4 == 0) {
    f(d, std::integral_constant<int, 4>());
  } else if (vectors % 3 == 0) {
    f(d, std::integral_constant<int, 3>());
  } else if (vectors % 2 == 0) {
    f(d, std::integral_constant<int, 2>());
  } else {
    f(d, std::integral_constant<int, 1>());
  }
}

// Calls f(d) with the longest vectors whose lanes divide a panel's row.
template <class T, class F>
HWY_INLINE void with_lanes(int64_t width, F f) {
  const hn::ScalableTag<T> d;
  if (width % static_cast<int64_t>(hn::Lanes(d)) == 0) {
    f(d);
  } else {
    f(hn::CappedTag<T, 4>());
  }
}

// with_steps_of() with the vectors of with_lanes().
template <class T, class F>
HWY_INLINE void with_steps(int64_t width, F f) {
  with_lanes<T>(width, [&](auto d) HWY_ATTR { with_steps_of(d, width, f); });
}

// v rounded to bf16, in the upper halves of lanes. A NaN stays NaN if its lower half is 0: the
// addition then does not carry into the exponent.
template <class D>
HWY_INLINE Unsigned<D> round_to_upper(D /*d*/, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(bits, hn::Set(du, 0x10000u));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), hn::ShiftRight<16>(odd));
}

template <class D>
using Halves = hn::Vec<hn::Repartition<uint16_t, D>>;

// The lanes of `low`, then those of `high`, rounded to bf16.
template <class D>
HWY_INLINE Halves<D> round_pair(D d, hn::Vec<D> low, hn::Vec<D> high) {
#if HWY_ARCH_ARM_A64
  // A CPU that multiplies bf16 also has an instruction that converts to it; Highway does not use
  // it.
  (void)d;
  Halves<D> pair;
  asm(BINADE_ASM_BF16
      "bfcvtn %0.4h, %1.4s\n"
      "bfcvtn2 %0.8h, %2.4s\n"
      : "=&w"(pair.raw)
      : "w"(low.raw), "w"(high.raw));
  return pair;
#else
  const hn::Repartition<uint16_t, D> d16;
  return hn::ConcatOdd(d16, hn::BitCast(d16, round_to_upper(d, high)),
                       hn::BitCast(d16, round_to_upper(d, low)));
#endif
}

template <class D>
HWY_INLINE void store_halves(D /*d*/, Halves<D> v, bf16* to) {
  hn::StoreU(v, hn::Repartition<uint16_t, D>(), &to->bits);
}

}  // namespace HWY_NAMESPACE
}  // namespace binade::backend::cpu::attention
HWY_AFTER_NAMESPACE();

#endif
