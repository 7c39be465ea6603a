#pragma once

#include <cstdint>

#include "binade/base/host_device.h"

// Number formats. A format is described once, by the widths of its fields and the rule for its
// special values; limits and conversions derive from that description.

namespace binade::formats {

enum class Specials {
  ieee,           // the top exponent holds infinities and NaNs
  finite,         // OCP "fn": no infinity; only the all-ones magnitude is NaN
  unsigned_zero,  // "fnuz": no infinity, no -0 (its code is the only NaN); the bias is larger by
                  // one
  exponent_only,  // a scale: no sign, no mantissa, no zero; all ones is NaN
  none,           // all codes are finite numbers
};

enum class Rounding { nearest_even, toward_zero, stochastic };

// The result for a magnitude that rounds past max(). `special`: infinity if the format has one,
// else NaN. `saturate`: the largest finite number, also for infinities. NaN stays NaN.
enum class Overflow { special, saturate };

// 2^exponent, exact over the full range of double.
BINADE_HD constexpr double power_of_two(int exponent) {
  const uint64_t bits = exponent >= -1022 ? static_cast<uint64_t>(exponent + 1023) << 52
                                          : uint64_t{1} << (exponent + 1074);
  return __builtin_bit_cast(double, bits);
}

struct Format {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  Specials specials;
  const char* use;

  BINADE_HD constexpr bool operator==(const Format& other) const {
    return exponent_bits == other.exponent_bits && mantissa_bits == other.mantissa_bits &&
           specials == other.specials;
  }

  BINADE_HD constexpr bool is_signed() const { return specials != Specials::exponent_only; }
  BINADE_HD constexpr bool has_infinity() const { return specials == Specials::ieee; }
  BINADE_HD constexpr bool has_nan() const { return specials != Specials::none; }
  BINADE_HD constexpr bool has_zero() const { return specials != Specials::exponent_only; }
  BINADE_HD constexpr bool has_negative_zero() const {
    return is_signed() && specials != Specials::unsigned_zero;
  }
  BINADE_HD constexpr bool has_subnormals() const { return has_zero() && mantissa_bits > 0; }

  BINADE_HD constexpr int bits() const {
    return (is_signed() ? 1 : 0) + exponent_bits + mantissa_bits;
  }
  BINADE_HD constexpr int bias() const {
    return (1 << (exponent_bits - 1)) - (specials == Specials::unsigned_zero ? 0 : 1);
  }

  // Bit patterns ("codes") without the sign bit, and the sign bit.
  BINADE_HD constexpr uint64_t magnitude_mask() const {
    return (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  }
  BINADE_HD constexpr uint64_t sign_mask() const { return is_signed() ? magnitude_mask() + 1 : 0; }
  BINADE_HD constexpr uint64_t infinity_code() const {
    return magnitude_mask() & ~((uint64_t{1} << mantissa_bits) - 1);
  }
  BINADE_HD constexpr uint64_t max_code() const {
    if (specials == Specials::ieee) return infinity_code() - 1;
    if (specials == Specials::finite || specials == Specials::exponent_only)
      return magnitude_mask() - 1;
    return magnitude_mask();
  }
  // The quiet NaN, with positive sign if NaN has one. For a format without NaN this is max_code(),
  // as in NVIDIA's conversion to e2m1.
  BINADE_HD constexpr uint64_t nan_code() const {
    if (specials == Specials::ieee) return infinity_code() | (uint64_t{1} << (mantissa_bits - 1));
    if (specials == Specials::unsigned_zero) return sign_mask();
    return magnitude_mask();
  }

  // Exponents of the largest and the smallest normal number.
  BINADE_HD constexpr int max_exponent() const {
    return static_cast<int>(max_code() >> mantissa_bits) - bias();
  }
  BINADE_HD constexpr int min_exponent() const { return (has_zero() ? 1 : 0) - bias(); }

  BINADE_HD constexpr double max() const {
    const uint64_t hidden = uint64_t{1} << mantissa_bits;
    const uint64_t significand = (max_code() & (hidden - 1)) | hidden;
    return static_cast<double>(significand) * epsilon() * power_of_two(max_exponent());
  }
  BINADE_HD constexpr double min_normal() const { return power_of_two(min_exponent()); }
  // Zero if the format has no subnormal numbers.
  BINADE_HD constexpr double min_subnormal() const {
    return has_subnormals() ? power_of_two(min_exponent() - mantissa_bits) : 0.0;
  }
  // The distance from 1 to the next larger number. The relative error of rounding to nearest is at
  // most half of it for normal numbers.
  BINADE_HD constexpr double epsilon() const { return power_of_two(-mantissa_bits); }
  // The significand's precision in decimal digits.
  BINADE_HD constexpr double decimal_digits() const {
    constexpr double log10_of_2 = 0.30102999566398119521;
    return (mantissa_bits + 1) * log10_of_2;
  }
};

namespace spec {

inline constexpr Format f64{"f64", 11, 52, Specials::ieee, "reference results"};
inline constexpr Format f32{"f32", 8, 23, Specials::ieee, "masters, sums"};
inline constexpr Format tf32{"tf32", 8, 10, Specials::ieee, "f32 matmuls"};
inline constexpr Format f16{"f16", 5, 10, Specials::ieee, "compute, scaled"};
inline constexpr Format bf16{"bf16", 8, 7, Specials::ieee, "compute"};
inline constexpr Format e4m3{"e4m3", 4, 3, Specials::finite, "FP8 forward (OCP)"};
inline constexpr Format e4m3fnuz{"e4m3fnuz", 4, 3, Specials::unsigned_zero, "FP8 on AMD MI300"};
inline constexpr Format e5m2{"e5m2", 5, 2, Specials::ieee, "FP8 gradients"};
inline constexpr Format e8m0{"e8m0", 8, 0, Specials::exponent_only, "MX block scales"};
inline constexpr Format e2m1{"e2m1", 2, 1, Specials::none, "MX FP4 elements"};

}  // namespace spec

// All formats, in the order `binade formats` prints them.
inline constexpr const Format* all[] = {&spec::f32,  &spec::tf32, &spec::f16,
                                        &spec::bf16, &spec::e4m3, &spec::e4m3fnuz,
                                        &spec::e5m2, &spec::e8m0, &spec::e2m1};

BINADE_HD constexpr uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
BINADE_HD constexpr float float_from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

namespace detail {

// A magnitude split at the last bit a format keeps: `code` is the magnitude rounded toward zero,
// `rest` the dropped part in units of 2^-32 of the last kept bit.
struct Truncated {
  uint32_t code;
  uint32_t rest;
};

template <const Format& F>
BINADE_HD constexpr Truncated truncate(uint32_t magnitude) {
  constexpr int mantissa_bits = F.mantissa_bits;
  constexpr int bias = F.bias();
  constexpr int min_exponent = F.min_exponent();
  constexpr bool exponent_only = F.specials == Specials::exponent_only;

  const int field = static_cast<int>(magnitude >> 23);
  uint32_t significand = field != 0 ? (magnitude & 0x7fffff) | 0x800000 : magnitude;
  int exponent = field != 0 ? field - 127 : -126;
  if (exponent_only && field == 0) {
    // f32 holds the smallest scale, 2^-127, as a subnormal. Smaller values round up to it.
    significand = significand < 0x400000 ? 0x800000 : significand << 1;
    exponent = min_exponent;
  }
  const int kept_exponent = exponent > min_exponent ? exponent : min_exponent;
  const int dropped = kept_exponent - exponent + 23 - mantissa_bits;
  const uint64_t fixed = dropped < 64 ? (uint64_t{significand} << 32) >> dropped : 0;
  // The exponent field starts one lower, because adding the hidden bit raises it by one.
  const uint32_t field_below = static_cast<uint32_t>(kept_exponent + bias - 1) << mantissa_bits;
  return {field_below + static_cast<uint32_t>(fixed >> 32), static_cast<uint32_t>(fixed)};
}

}  // namespace detail

// The code of x in format F.
// - Subnormals round correctly. -0 keeps its sign if the format has -0.
// - NaN gives NaN (+max in e2m1, which has none). IEEE formats keep its sign and the leading bits
//   of its payload, and make it quiet.
// - nearest_even: ties go to the even code; in e8m0, which has one significant bit, to the larger
//   power of two, as in IEEE 754.
// - toward_zero: finite values never become infinite.
// - stochastic: rounds away from zero with a probability equal to the dropped fraction, given 32
//   uniform bits in `random`. The mean is exact for fractions that are multiples of 2^-32.
// - e8m0 has no sign and no zero: negative numbers give NaN, zero gives the smallest power of two.
template <const Format& F>
BINADE_HD constexpr uint32_t encode(float x, Rounding rounding = Rounding::nearest_even,
                                    Overflow overflow = Overflow::special, uint32_t random = 0) {
  static_assert(F.bits() <= 32);
  constexpr uint32_t sign_mask = static_cast<uint32_t>(F.sign_mask());
  constexpr uint32_t max_code = static_cast<uint32_t>(F.max_code());
  constexpr uint32_t nan_code = static_cast<uint32_t>(F.nan_code());
  constexpr uint32_t infinity_code = static_cast<uint32_t>(F.infinity_code());
  constexpr bool ieee = F.specials == Specials::ieee;
  constexpr uint32_t f32_infinity = 0x7f800000;

  const uint32_t magnitude = float_bits(x) & 0x7fffffff;
  const bool negative = float_bits(x) >> 31 != 0;
  const uint32_t sign = negative ? sign_mask : 0;

  if (magnitude > f32_infinity) {
    if (ieee) return sign | nan_code | (magnitude & 0x7fffff) >> (23 - F.mantissa_bits);
    return nan_code | (F.specials == Specials::finite ? sign : 0);
  }
  if (F.specials == Specials::exponent_only && negative && magnitude != 0) return nan_code;

  const detail::Truncated truncated = detail::truncate<F>(magnitude);
  uint32_t add = 0;
  // Half a unit in the last place, minus one if the code is even, so that a tie rounds down.
  if (rounding == Rounding::nearest_even)
    add = 0x7fffffff + ((F.mantissa_bits == 0 ? 1 : truncated.code) & 1);
  if (rounding == Rounding::stochastic) add = random;
  const uint32_t code =
      truncated.code + static_cast<uint32_t>((uint64_t{truncated.rest} + add) >> 32);

  if (code > max_code) {
    const bool stays_finite = rounding == Rounding::toward_zero && magnitude != f32_infinity;
    if (overflow == Overflow::saturate || stays_finite || !F.has_nan()) return sign | max_code;
    if (ieee) return sign | infinity_code;
    return nan_code | (F.specials == Specials::finite ? sign : 0);
  }
  if (F.specials == Specials::unsigned_zero && code == 0) return 0;
  return sign | code;
}

// The exact value of a code of format F. NaN gives a quiet NaN with the same sign and payload;
// formats with f32's exponent width keep a signaling NaN unchanged, so that widening is one shift.
template <const Format& F>
BINADE_HD constexpr float decode(uint32_t code) {
  static_assert(F.bits() <= 32);
  constexpr int mantissa_bits = F.mantissa_bits;
  constexpr int shift = 23 - mantissa_bits;
  constexpr uint32_t sign_mask = static_cast<uint32_t>(F.sign_mask());
  constexpr uint32_t magnitude_mask = static_cast<uint32_t>(F.magnitude_mask());
  constexpr uint32_t infinity_code = static_cast<uint32_t>(F.infinity_code());
  constexpr uint32_t nan_code = static_cast<uint32_t>(F.nan_code());
  constexpr uint32_t f32_nan = 0x7fc00000;

  const uint32_t magnitude = code & magnitude_mask;
  const uint32_t sign = (code & sign_mask) != 0 ? 0x80000000u : 0;
  if constexpr (F.specials == Specials::exponent_only) {
    if (magnitude == nan_code) return float_from_bits(f32_nan);
    return float_from_bits(magnitude == 0 ? 0x400000 : magnitude << 23);
  } else if constexpr (F.specials == Specials::ieee && F.exponent_bits == 8) {
    return float_from_bits(sign | magnitude << shift);
  } else {
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - F.bias()) << 23;
    constexpr float smallest = static_cast<float>(F.min_subnormal());
    if (F.specials == Specials::ieee && magnitude >= infinity_code) {
      const uint32_t quiet = magnitude != infinity_code ? f32_nan : 0x7f800000;
      return float_from_bits(sign | quiet | (magnitude << shift & 0x7fffff));
    }
    if (F.specials == Specials::finite && magnitude == nan_code)
      return float_from_bits(sign | f32_nan);
    if (F.specials == Specials::unsigned_zero && code == nan_code) return float_from_bits(f32_nan);
    if (magnitude >> mantissa_bits != 0)
      return float_from_bits(sign | ((magnitude << shift) + rebias));
    return float_from_bits(sign | float_bits(static_cast<float>(magnitude) * smallest));
  }
}

// x with its mantissa rounded to TF32's ten bits, to nearest even. NaN becomes quiet.
BINADE_HD constexpr float round_tf32(float x) {
  constexpr int dropped = spec::f32.mantissa_bits - spec::tf32.mantissa_bits;
  constexpr uint32_t below_half = (uint32_t{1} << (dropped - 1)) - 1;
  constexpr uint32_t kept = ~((uint32_t{1} << dropped) - 1);
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return float_from_bits((bits | 0x400000) & kept);
  return float_from_bits((bits + below_half + (bits >> dropped & 1)) & kept);
}

}  // namespace binade::formats
