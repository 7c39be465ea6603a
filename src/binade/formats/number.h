#pragma once

#include <cstdint>
#include <type_traits>

#include "binade/base/host_device.h"
#include "binade/formats/format.h"

// Storage types for small formats. They only convert; arithmetic happens in float.

namespace binade {

namespace formats::detail {

// Rounds to nearest even. In the subnormal range a float addition does the rounding: `aligner`
// places float's last bit on f16's.
BINADE_HD constexpr uint16_t narrow_f16(float x) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    uint16_t code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
  }
#endif
  constexpr int dropped = spec::f32.mantissa_bits - spec::f16.mantissa_bits;
  constexpr uint32_t infinity = static_cast<uint32_t>(spec::f16.infinity_code());
  constexpr uint32_t nan = static_cast<uint32_t>(spec::f16.nan_code());
  constexpr uint32_t overflow = static_cast<uint32_t>(spec::f16.max_exponent() + 1 + 127) << 23;
  constexpr uint32_t min_normal = static_cast<uint32_t>(spec::f16.min_exponent() + 127) << 23;
  constexpr uint32_t rebias = static_cast<uint32_t>(127 - spec::f16.bias()) << 23;
  constexpr float aligner = static_cast<float>(spec::f16.min_subnormal() / spec::f32.epsilon());

  const uint32_t bits = float_bits(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= overflow) {
    if (magnitude <= 0x7f800000) return static_cast<uint16_t>(sign | infinity);
    return static_cast<uint16_t>(sign | nan | (magnitude & 0x7fffff) >> dropped);
  }
  if (magnitude < min_normal) {
    const float aligned = float_from_bits(magnitude) + aligner;
    return static_cast<uint16_t>(sign | (float_bits(aligned) - float_bits(aligner)));
  }
  constexpr uint32_t below_half = (uint32_t{1} << (dropped - 1)) - 1;
  const uint32_t rounded = magnitude - rebias + below_half + (magnitude >> dropped & 1);
  return static_cast<uint16_t>(sign | rounded >> dropped);
}

BINADE_HD constexpr float widen_f16(uint16_t code) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(code));
    return x;
  }
#endif
  return decode<spec::f16>(code);
}

BINADE_HD constexpr uint16_t narrow_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (!__builtin_is_constant_evaluated()) {
    uint16_t code;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
  }
#endif
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace formats::detail

// A number of format F in 8 or 16 bits. Construction rounds to nearest even and overflows to the
// format's special value; formats::encode has the other modes.
template <const formats::Format& F>
struct Number {
  using Bits = std::conditional_t<(F.bits() > 8), uint16_t, uint8_t>;
  static_assert(F.bits() <= 16);

  Bits bits;

  Number() = default;
  BINADE_HD explicit constexpr Number(float x) : bits(narrow(x)) {}
  BINADE_HD constexpr operator float() const {
    if constexpr (F == formats::spec::f16) return formats::detail::widen_f16(bits);
    return formats::decode<F>(bits);
  }

  BINADE_HD static constexpr Number from_bits(Bits bits) {
    Number number{};
    number.bits = bits;
    return number;
  }

 private:
  BINADE_HD static constexpr Bits narrow(float x) {
    if constexpr (F == formats::spec::f16) return formats::detail::narrow_f16(x);
    if constexpr (F == formats::spec::bf16) return formats::detail::narrow_bf16(x);
    return static_cast<Bits>(formats::encode<F>(x));
  }
};

using f16 = Number<formats::spec::f16>;
using bf16 = Number<formats::spec::bf16>;
using e4m3 = Number<formats::spec::e4m3>;
using e4m3fnuz = Number<formats::spec::e4m3fnuz>;
using e5m2 = Number<formats::spec::e5m2>;
using e8m0 = Number<formats::spec::e8m0>;

namespace formats {

namespace detail {

template <class T>
struct FormatOf;
template <>
struct FormatOf<double> {
  static constexpr const Format& format = spec::f64;
};
template <>
struct FormatOf<float> {
  static constexpr const Format& format = spec::f32;
};
template <const Format& F>
struct FormatOf<Number<F>> {
  static constexpr const Format& format = F;
};

}  // namespace detail

// The format of a C++ type: double, float or a storage type. A copy rather than a reference,
// because device code cannot follow a reference to a host constant.
template <class T>
inline constexpr Format format_of = detail::FormatOf<std::remove_cv_t<T>>::format;

}  // namespace formats

}  // namespace binade
