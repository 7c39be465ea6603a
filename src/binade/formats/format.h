#pragma once

#include <cstdint>

#include "binade/base/host_device.h"

// What a number's bits mean. A format is described once, by the widths of its fields and the rule
// for its special values; its limits and its conversions all derive from that description.

namespace binade::formats {

enum class Specials {
  ieee,           // the top exponent holds infinities and NaNs
  finite,         // OCP "fn": no infinity; only the all-ones magnitude is NaN
  unsigned_zero,  // "fnuz": no infinity, no -0 (its code is the one NaN); the bias is one more
  exponent_only,  // a scale: no sign, no mantissa, no zero; all ones is NaN
  none,           // every code is a finite number
};

enum class Rounding { nearest_even, toward_zero, stochastic };

// What becomes of a magnitude that rounds past max(): infinity where the format has one, else NaN
// (`special`), or the largest finite number (`saturate`, infinities included). NaN stays NaN.
enum class Overflow { special, saturate };

// 2^exponent, exact over the whole range of double.
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

  // Codes without their sign bit.
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
  // The quiet NaN of positive sign where NaN has a sign. A format without NaN gives max_code(), as
  // NVIDIA's conversion to e2m1 does.
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
  // Zero where the format has no subnormal numbers.
  BINADE_HD constexpr double min_subnormal() const {
    return has_subnormals() ? power_of_two(min_exponent() - mantissa_bits) : 0.0;
  }
  // The distance from 1 to the next larger number. Rounding to nearest errs by at most half of it,
  // relative to a normal number.
  BINADE_HD constexpr double epsilon() const { return power_of_two(-mantissa_bits); }
  // How many decimal digits the significand is worth.
  BINADE_HD constexpr double decimal_digits() const {
    constexpr double log10_of_2 = 0.30102999566398119521;
    return (mantissa_bits + 1) * log10_of_2;
  }
};

namespace spec {

inline constexpr Format f64{"f64", 11, 52, Specials::ieee, "reference results"};
inline constexpr Format f32{"f32", 8, 23, Specials::ieee, "masters and sums"};
inline constexpr Format tf32{"tf32", 8, 10, Specials::ieee, "products of f32"};
inline constexpr Format f16{"f16", 5, 10, Specials::ieee, "compute, scaled"};
inline constexpr Format bf16{"bf16", 8, 7, Specials::ieee, "compute"};
inline constexpr Format e4m3{"e4m3", 4, 3, Specials::finite, "FP8 forward (OCP)"};
inline constexpr Format e4m3fnuz{"e4m3fnuz", 4, 3, Specials::unsigned_zero, "FP8 on AMD MI300"};
inline constexpr Format e5m2{"e5m2", 5, 2, Specials::ieee, "FP8 gradients"};
inline constexpr Format e8m0{"e8m0", 8, 0, Specials::exponent_only, "MX block scales"};
inline constexpr Format e2m1{"e2m1", 2, 1, Specials::none, "MX FP4 elements"};

}  // namespace spec

// The formats of the engine, as `binade formats` prints them.
inline constexpr const Format* all[] = {&spec::f32,  &spec::tf32, &spec::f16,
                                        &spec::bf16, &spec::e4m3, &spec::e4m3fnuz,
                                        &spec::e5m2, &spec::e8m0, &spec::e2m1};

BINADE_HD constexpr uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
BINADE_HD constexpr float float_from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

namespace detail {

// A magnitude cut between the bits a format keeps and the rest: `code` is the magnitude rounded
// toward zero, `rest` what was cut off, in units of 2^-32 of the last kept place.
struct Cut {
  uint32_t code;
  uint32_t rest;
};

template <const Format& F>
BINADE_HD constexpr Cut cut(uint32_t magnitude) {
  constexpr int mantissa_bits = F.mantissa_bits;
  constexpr int bias = F.bias();
  constexpr int min_exponent = F.min_exponent();
  constexpr bool exponent_only = F.specials == Specials::exponent_only;

  const int field = static_cast<int>(magnitude >> 23);
  uint32_t significand = field != 0 ? (magnitude & 0x7fffff) | 0x800000 : magnitude;
  int exponent = field != 0 ? field - 127 : -126;
  if (exponent_only && field == 0) {
    // f32 holds the smallest scale, 2^-127, as a subnormal. Whatever is smaller rises to it.
    significand = significand < 0x400000 ? 0x800000 : significand << 1;
    exponent = min_exponent;
  }
  const int place = exponent > min_exponent ? exponent : min_exponent;
  const int dropped = place - exponent + 23 - mantissa_bits;
  const uint64_t fixed = dropped < 64 ? (uint64_t{significand} << 32) >> dropped : 0;
  // The hidden bit, part of what is kept, adds one to an exponent field that starts one lower.
  const uint32_t below = static_cast<uint32_t>(place + bias - 1) << mantissa_bits;
  return {below + static_cast<uint32_t>(fixed >> 32), static_cast<uint32_t>(fixed)};
}

}  // namespace detail

// The code of x in format F.
// - Subnormals are exact. -0 keeps its sign where the format has one.
// - NaN gives NaN (format e2m1, which has none: +max). An IEEE format keeps its sign and the
// leading
//   bits of its payload, and makes it quiet.
// - nearest_even: a tie goes to the even code; for e8m0, which keeps a single digit, to the larger
//   power, as IEEE 754 has it.
// - toward_zero: finite values never become infinite.
// - stochastic: rounds away from zero with the probability of the fraction cut off, given 32
// uniform
//   bits in `random`. The mean is exact for fractions that are multiples of 2^-32 of the last
//   place.
// - e8m0 holds no sign and no zero: a negative number gives NaN, zero gives the smallest power.
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

  const detail::Cut cut = detail::cut<F>(magnitude);
  uint32_t add = 0;
  // Half of the last place, less one unit when an even code lets a tie stay.
  if (rounding == Rounding::nearest_even)
    add = 0x7fffffff + ((F.mantissa_bits == 0 ? 1 : cut.code) & 1);
  if (rounding == Rounding::stochastic) add = random;
  const uint32_t code = cut.code + static_cast<uint32_t>((uint64_t{cut.rest} + add) >> 32);

  if (code > max_code) {
    const bool truncated = rounding == Rounding::toward_zero && magnitude != f32_infinity;
    if (overflow == Overflow::saturate || truncated || !F.has_nan()) return sign | max_code;
    if (ieee) return sign | infinity_code;
    return nan_code | (F.specials == Specials::finite ? sign : 0);
  }
  if (F.specials == Specials::unsigned_zero && code == 0) return 0;
  return sign | code;
}

// The value of a code of format F: exact for every number. NaN gives a quiet NaN that keeps sign
// and payload; the formats with f32's exponent keep a signalling one as it is, so widening is one
// shift.
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

// x with its mantissa rounded to TF32's ten bits, to nearest even. NaN stays NaN, made quiet.
BINADE_HD constexpr float round_tf32(float x) {
  constexpr int dropped = spec::f32.mantissa_bits - spec::tf32.mantissa_bits;
  constexpr uint32_t below_half = (uint32_t{1} << (dropped - 1)) - 1;
  constexpr uint32_t kept = ~((uint32_t{1} << dropped) - 1);
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return float_from_bits((bits | 0x400000) & kept);
  return float_from_bits((bits + below_half + (bits >> dropped & 1)) & kept);
}

}  // namespace binade::formats
