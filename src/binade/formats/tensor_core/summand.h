#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "binade/formats/tensor_core/tensor_core.h"

// The steps of a fused sum that its plain and its fast form share.
namespace binade::formats::tensor_core {

// A finite number: significand x 2^(exponent - bits of its fraction).
struct Summand {
  int32_t significand = 0;
  int32_t exponent = 0;
};

// The exponent of a zero where zeros are left out: below that of every product. Sums of two of them
// stay far from int32's limits.
inline constexpr int32_t left_out_exponent = -4096;
inline constexpr int32_t zero_exponent = -126;

inline constexpr float nan_f32 = __builtin_bit_cast(float, 0x7fffffffu);
inline constexpr float nan_f16 = __builtin_bit_cast(float, 0x7fffe000u);

constexpr int32_t exponent_of_zero(ZeroSummands zeros) {
  return zeros == ZeroSummands::left_out ? left_out_exponent : zero_exponent;
}

// A finite x as a number of `fraction_bits`, whose exponent is at least `min_exponent`. Lower bits
// are dropped.
constexpr Summand split(float x, int fraction_bits, int min_exponent, ZeroSummands zeros) {
  const uint32_t bits = float_bits(x), magnitude = bits & 0x7fffffff;
  if (magnitude == 0) return {0, exponent_of_zero(zeros)};
  const auto field = static_cast<int32_t>(magnitude >> 23);
  const uint32_t fraction = magnitude & 0x7fffff;
  const uint32_t significand = field != 0 ? fraction | 0x800000 : fraction;
  const int32_t exponent = field != 0 ? field - 127 : -126;
  const int32_t below = exponent < min_exponent ? min_exponent - exponent : 0;
  const int32_t shift = below + 23 - fraction_bits;
  const auto kept = static_cast<int32_t>(shift < 32 ? significand >> shift : 0);
  return {bits >> 31 != 0 ? -kept : kept, exponent + below};
}

// The number that the hardware sees: tf32 drops the low bits of f32. Fails if the format does not
// hold x.
float operand(float x, const Format& format);

// A finite factor, as operand() returns it.
constexpr Summand split_factor(float x, const Format& format, ZeroSummands zeros) {
  return split(x, format.mantissa_bits, format.min_exponent(), zeros);
}

constexpr int32_t least_exponent_of_c(Accumulator accumulator) {
  return accumulator == Accumulator::f16 ? spec::f16.min_exponent() : spec::f32.min_exponent();
}

// c of an instruction. Of f16 it has f16's least exponent; its fraction is widened to f32's.
constexpr Summand split_accumulator(float c, const Options& options) {
  return split(c, spec::f32.mantissa_bits, least_exponent_of_c(options.accumulator), options.zeros);
}

// The largest exponent is at least this, whatever the summands.
constexpr int32_t least_exponent(const Unit& unit, const Options& options) {
  if (options.zeros == ZeroSummands::least_exponent) return 2 * zero_exponent;
  return options.accumulator == Accumulator::f16 ? unit.least_exponent_f16
                                                 : unit.least_exponent_f32;
}

// sum x 2^unit_exponent as the instruction returns it. sum is exact in double.
inline float round_sum(int64_t sum, int32_t unit_exponent, int kept_bits, Accumulator accumulator) {
  double exact = static_cast<double>(sum) * power_of_two(unit_exponent);
  auto bits = __builtin_bit_cast(uint64_t, exact);
  if (accumulator == Accumulator::f16) {
    // Rounded to odd first, with 13 bits more than f16 has, so that the second rounding is right.
    constexpr uint64_t dropped = (uint64_t{1} << 29) - 1;
    bits = (bits & ~dropped) | ((bits & dropped) != 0 ? dropped + 1 : 0);
    exact = __builtin_bit_cast(double, bits);
    if (std::abs(exact) > 1e30) return exact > 0 ? HUGE_VALF : -HUGE_VALF;
    return decode<spec::f16>(encode<spec::f16>(static_cast<float>(exact), Rounding::nearest_even,
                                               Overflow::special)) +
           0.0f;
  }
  if (std::abs(exact) < spec::f32.min_normal())
    return static_cast<float>(
        std::trunc(exact / spec::f32.min_subnormal()) * spec::f32.min_subnormal() + 0.0);
  const uint64_t dropped = (uint64_t{1} << (52 - kept_bits)) - 1;
  exact = __builtin_bit_cast(double, bits & ~dropped);
  if (std::abs(exact) >= 0x1p128) return exact > 0 ? HUGE_VALF : -HUGE_VALF;
  return static_cast<float>(exact);
}

}  // namespace binade::formats::tensor_core
