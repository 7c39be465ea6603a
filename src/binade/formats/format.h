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
  integer,        // whole numbers in two's complement; the most negative one is never written
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

// `name` and `use` are static strings: formats::parse (parse.h) makes formats of any fields.
struct Format {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  Specials specials;
  const char* use;
  int given_bias = -1;  // -1: the usual one
  bool is_unsigned = false;

  BINADE_HD constexpr bool operator==(const Format& other) const {
    return exponent_bits == other.exponent_bits && mantissa_bits == other.mantissa_bits &&
           specials == other.specials && bias() == other.bias() && is_signed() == other.is_signed();
  }

  BINADE_HD constexpr bool is_signed() const {
    return !is_unsigned && specials != Specials::exponent_only;
  }
  BINADE_HD constexpr bool is_integer() const { return specials == Specials::integer; }
  BINADE_HD constexpr bool has_infinity() const { return specials == Specials::ieee; }
  BINADE_HD constexpr bool has_nan() const {
    return specials != Specials::none && specials != Specials::integer;
  }
  BINADE_HD constexpr bool has_zero() const { return specials != Specials::exponent_only; }
  BINADE_HD constexpr bool has_negative_zero() const {
    return is_signed() && specials != Specials::unsigned_zero && !is_integer();
  }
  BINADE_HD constexpr bool has_subnormals() const {
    return has_zero() && mantissa_bits > 0 && !is_integer();
  }

  BINADE_HD constexpr int bits() const {
    return (is_signed() ? 1 : 0) + exponent_bits + mantissa_bits;
  }
  // Integers are the subnormal numbers of a format whose smallest one is 1.
  BINADE_HD constexpr int bias() const {
    if (is_integer()) return 1 - mantissa_bits;
    if (given_bias >= 0) return given_bias;
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

  // Exponents of the largest and the smallest normal number; of an integer format, which has none,
  // those of the largest number's leading bit and of 1.
  BINADE_HD constexpr int max_exponent() const {
    if (is_integer()) return mantissa_bits - 1;
    return static_cast<int>(max_code() >> mantissa_bits) - bias();
  }
  BINADE_HD constexpr int min_exponent() const {
    if (is_integer()) return 0;
    return (has_zero() ? 1 : 0) - bias();
  }

  BINADE_HD constexpr double max() const {
    if (is_integer()) return static_cast<double>(max_code());
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
  BINADE_HD constexpr double epsilon() const {
    return is_integer() ? 1.0 : power_of_two(-mantissa_bits);
  }
  // The significand's precision in decimal digits.
  BINADE_HD constexpr double decimal_digits() const {
    constexpr double log10_of_2 = 0.30102999566398119521;
    return (mantissa_bits + (is_integer() ? 0 : 1)) * log10_of_2;
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
inline constexpr Format e2m3{"e2m3", 2, 3, Specials::none, "MX FP6 elements"};
inline constexpr Format e3m2{"e3m2", 3, 2, Specials::none, "MX FP6 gradients"};
inline constexpr Format int8{"int8", 0, 7, Specials::integer, "integers, scaled"};
inline constexpr Format int4{"int4", 0, 3, Specials::integer, "integers, scaled"};

}  // namespace spec

// All formats, in the order `binade formats` prints them.
inline constexpr const Format* all[] = {&spec::f32,  &spec::tf32, &spec::f16,
                                        &spec::bf16, &spec::e4m3, &spec::e4m3fnuz,
                                        &spec::e5m2, &spec::e8m0, &spec::e2m1};

BINADE_HD constexpr uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
BINADE_HD constexpr float float_from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

namespace detail {

// The numbers of a format that conversions need. A value, so that one algorithm serves formats that
// the compiler knows, whose numbers become constants, and those that are read at run time.
struct Fields {
  Specials specials;
  int mantissa_bits;
  int bias;
  int min_exponent;  // below it the last kept bit stays where it is
  bool is_signed;
  bool widens_by_shift;  // codes are the upper bits of f32's
  uint32_t magnitude_mask, sign_mask, max_code, nan_code, infinity_code;
  float smallest;  // the value of code 1 of formats with subnormals
};

BINADE_HD constexpr Fields fields_of(const Format& format) {
  const int min_exponent = (format.has_zero() ? 1 : 0) - format.bias();
  return {.specials = format.specials,
          .mantissa_bits = format.mantissa_bits,
          .bias = format.bias(),
          .min_exponent = min_exponent,
          .is_signed = format.is_signed(),
          .widens_by_shift = format.specials == Specials::ieee && format.exponent_bits == 8,
          .magnitude_mask = static_cast<uint32_t>(format.magnitude_mask()),
          .sign_mask = static_cast<uint32_t>(format.sign_mask()),
          .max_code = static_cast<uint32_t>(format.max_code()),
          .nan_code = static_cast<uint32_t>(format.nan_code()),
          .infinity_code = static_cast<uint32_t>(format.infinity_code()),
          .smallest = static_cast<float>(power_of_two(min_exponent - format.mantissa_bits))};
}

// A magnitude split at the last bit a format keeps: `code` is the magnitude rounded toward zero,
// `rest` the dropped part in units of 2^-32 of the last kept bit.
struct Truncated {
  uint32_t code;
  uint32_t rest;
};

BINADE_INLINE BINADE_HD constexpr Truncated truncate(const Fields& fields, uint32_t magnitude) {
  const int field = static_cast<int>(magnitude >> 23);
  uint32_t significand = field != 0 ? (magnitude & 0x7fffff) | 0x800000 : magnitude;
  int exponent = field != 0 ? field - 127 : -126;
  if (fields.specials == Specials::exponent_only) {
    // f32 holds the smallest scale of e8m0, 2^-127, as a subnormal. Smaller values round up to the
    // smallest scale.
    if (field == 0) {
      significand = significand < 0x400000 ? 0x800000 : significand << 1;
      exponent = -127;
    }
    if (exponent < fields.min_exponent) {
      significand = 0x800000;
      exponent = fields.min_exponent;
    }
  }
  const int kept_exponent = exponent > fields.min_exponent ? exponent : fields.min_exponent;
  const int dropped = kept_exponent - exponent + 23 - fields.mantissa_bits;
  const uint64_t fixed = dropped < 64 ? (uint64_t{significand} << 32) >> dropped : 0;
  // The exponent field starts one lower, because adding the hidden bit raises it by one.
  const uint32_t field_below = static_cast<uint32_t>(kept_exponent + fields.bias - 1)
                               << fields.mantissa_bits;
  return {field_below + static_cast<uint32_t>(fixed >> 32), static_cast<uint32_t>(fixed)};
}

// Half a unit in the last place, minus one if the number is even, so that a tie rounds down. Powers
// of two without a mantissa are odd; zero is even.
BINADE_INLINE BINADE_HD constexpr uint32_t half_to_even(const Fields& fields, uint32_t code) {
  const bool is_odd = fields.mantissa_bits == 0
                          ? code != 0 || fields.specials == Specials::exponent_only
                          : (code & 1) != 0;
  return 0x7fffffffu + (is_odd ? 1 : 0);
}

// encode() of NaN, and of a number that rounds past the largest one.
BINADE_INLINE BINADE_HD constexpr uint32_t encode_nan(const Fields& fields, uint32_t bits) {
  const uint32_t sign = bits >> 31 != 0 ? fields.sign_mask : 0;
  if (fields.specials == Specials::ieee)
    return sign | fields.nan_code | (bits & 0x7fffff) >> (23 - fields.mantissa_bits);
  return fields.nan_code | (fields.specials == Specials::finite ? sign : 0);
}

BINADE_INLINE BINADE_HD constexpr uint32_t encode_overflow(const Fields& fields, bool negative,
                                                           bool saturates) {
  const uint32_t sign = negative ? fields.sign_mask : 0;
  if (fields.specials == Specials::integer)
    return negative ? (fields.sign_mask << 1) - fields.max_code : fields.max_code;
  if (saturates || fields.specials == Specials::none) return sign | fields.max_code;
  if (fields.specials == Specials::ieee) return sign | fields.infinity_code;
  return fields.nan_code | (fields.specials == Specials::finite ? sign : 0);
}

BINADE_INLINE BINADE_HD constexpr uint32_t encode_fields(const Fields& fields, float x,
                                                         Rounding rounding, Overflow overflow,
                                                         uint32_t random) {
  constexpr uint32_t f32_infinity = 0x7f800000;
  const uint32_t magnitude = float_bits(x) & 0x7fffffff;
  const bool negative = float_bits(x) >> 31 != 0;
  if (magnitude > f32_infinity) return encode_nan(fields, float_bits(x));
  if (!fields.is_signed && negative && magnitude != 0)
    return fields.specials == Specials::none ? 0 : fields.nan_code;

  const Truncated truncated = truncate(fields, magnitude);
  uint32_t add = 0;
  if (rounding == Rounding::nearest_even) add = half_to_even(fields, truncated.code);
  if (rounding == Rounding::stochastic) add = random;
  const uint32_t code =
      truncated.code + static_cast<uint32_t>((uint64_t{truncated.rest} + add) >> 32);

  if (code > fields.max_code) {
    const bool stays_finite = rounding == Rounding::toward_zero && magnitude != f32_infinity;
    return encode_overflow(fields, negative, overflow == Overflow::saturate || stays_finite);
  }
  if (fields.specials == Specials::integer)
    return negative && code != 0 ? (fields.sign_mask << 1) - code : code;
  if (fields.specials == Specials::unsigned_zero && code == 0) return 0;
  return (negative ? fields.sign_mask : 0) | code;
}

BINADE_INLINE BINADE_HD constexpr float decode_fields(const Fields& fields, uint32_t code) {
  constexpr uint32_t f32_nan = 0x7fc00000;
  const int shift = 23 - fields.mantissa_bits;
  const uint32_t magnitude = code & fields.magnitude_mask;
  const uint32_t sign = (code & fields.sign_mask) != 0 ? 0x80000000u : 0;
  const Specials specials = fields.specials;
  if (specials == Specials::integer) {
    const int whole = static_cast<int>(magnitude) - static_cast<int>(code & fields.sign_mask);
    return static_cast<float>(whole);
  }
  if (specials == Specials::exponent_only) {
    if (magnitude == fields.nan_code) return float_from_bits(f32_nan);
    const uint32_t field = magnitude + static_cast<uint32_t>(127 - fields.bias);
    return float_from_bits(field == 0 ? 0x400000 : field << 23);
  }
  if (fields.widens_by_shift) return float_from_bits(sign | magnitude << shift);
  if (specials == Specials::ieee && magnitude >= fields.infinity_code) {
    const uint32_t quiet = magnitude != fields.infinity_code ? f32_nan : 0x7f800000;
    return float_from_bits(sign | quiet | (magnitude << shift & 0x7fffff));
  }
  if (specials == Specials::finite && magnitude == fields.nan_code)
    return float_from_bits(sign | f32_nan);
  if (specials == Specials::unsigned_zero && code == fields.nan_code)
    return float_from_bits(f32_nan);
  const uint32_t rebias = static_cast<uint32_t>(127 - fields.bias) << 23;
  if (magnitude >> fields.mantissa_bits != 0)
    return float_from_bits(sign | ((magnitude << shift) + rebias));
  return float_from_bits(sign | float_bits(static_cast<float>(magnitude) * fields.smallest));
}

}  // namespace detail

// The code of x in format F.
// - Subnormals round correctly. -0 keeps its sign if the format has -0.
// - NaN gives NaN, and the largest number in a format that has none, such as e2m1. IEEE formats
//   keep its sign and the leading bits of its payload, and make it quiet.
// - nearest_even: ties go to the even code; in a format without a mantissa, whose numbers have one
//   significant bit, to the larger power of two, as in IEEE 754.
// - toward_zero: finite values never become infinite.
// - stochastic: rounds away from zero with a probability equal to the dropped fraction, given 32
//   uniform bits in `random`. The mean is exact for fractions that are multiples of 2^-32.
// - Formats without a sign: negative numbers give NaN, or zero if there is none. e8m0 has no zero
//   either, which gives the smallest power of two.
// - Integers saturate.
template <const Format& F>
BINADE_HD constexpr uint32_t encode(float x, Rounding rounding = Rounding::nearest_even,
                                    Overflow overflow = Overflow::special, uint32_t random = 0) {
  static_assert(F.bits() <= 32);
  constexpr detail::Fields fields = detail::fields_of(F);
  return detail::encode_fields(fields, x, rounding, overflow, random);
}

// The exact value of a code of format F. NaN gives a quiet NaN with the same sign and payload;
// formats with f32's exponent width keep a signaling NaN unchanged, so that widening is one shift.
template <const Format& F>
BINADE_HD constexpr float decode(uint32_t code) {
  static_assert(F.bits() <= 32);
  constexpr detail::Fields fields = detail::fields_of(F);
  return detail::decode_fields(fields, code);
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
