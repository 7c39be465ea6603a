#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "binade/formats/number.h"

// An independent reference for the formats: all numbers of a format, computed from its definition
// in double arithmetic and stored in a sorted table, and rounding as a search in that table.

namespace binade::formats::testing {

inline float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline uint32_t to_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

struct Reference {
  int bits, exponent_bits, mantissa_bits, bias;
  uint32_t
      numbers;  // codes of non-negative finite numbers: 0 .. numbers - 1; then the special value
  bool has_infinity, is_scale, has_negative_zero;
  std::vector<double> values = {};  // of those codes and of the next number, if the format had one

  double value(uint32_t code) const {
    const uint32_t steps = 1u << mantissa_bits;
    const int exponent = static_cast<int>(code / steps);
    const double fraction = static_cast<double>(code % steps) / steps;
    if (is_scale) return std::ldexp(1.0, exponent - bias);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias);
    return std::ldexp(1 + fraction, exponent - bias);
  }

  void fill() {
    for (uint32_t code = 0; code <= numbers; ++code) values.push_back(value(code));
  }

  // The code of the largest number not above x, or `numbers` if x is above all. A hint from a
  // slightly smaller x saves the search.
  uint32_t below(double x, uint32_t hint = 0) const {
    if (values[hint] > x || (hint + 64 < numbers && values[hint + 64] <= x)) {
      const auto above = std::upper_bound(values.begin(), values.end(), x);
      return above == values.begin() ? 0 : static_cast<uint32_t>(above - values.begin() - 1);
    }
    while (hint < numbers && values[hint + 1] <= x) ++hint;
    return hint;
  }

  // The code of a positive number that lies at or above `low` and below the number after it.
  uint32_t round(double x, uint32_t low, Rounding rounding, Overflow overflow) const {
    uint32_t code = low;
    if (rounding == Rounding::nearest_even && low < numbers) {
      const double middle = (values[low] + values[low + 1]) / 2;
      const bool tie_rises = is_scale || low % 2 == 1;
      if (x > middle || (x == middle && tie_rises)) ++code;
    }
    if (code < numbers) return code;
    const bool stays_finite = rounding == Rounding::toward_zero && !std::isinf(x);
    return overflow == Overflow::saturate || stays_finite ? numbers - 1 : numbers;
  }

  // A positive number's code with the sign of another.
  uint32_t with_sign(uint32_t code, bool negative, bool is_zero) const {
    if (!negative) return code;
    if (is_scale) return is_zero ? code : numbers;
    if (!has_negative_zero && (code == 0 || code == numbers)) return code;
    return code | 1u << (bits - 1);
  }

  uint32_t encode(float x, Rounding rounding, Overflow overflow, uint32_t hint = 0) const {
    const double magnitude = std::fabs(static_cast<double>(x));
    const uint32_t code = round(magnitude, below(magnitude, hint), rounding, overflow);
    return with_sign(code, std::signbit(x), x == 0);
  }

  bool is_nan(uint32_t code) const {
    const uint32_t magnitude = is_scale ? code : code & ((1u << (bits - 1)) - 1);
    if (!has_negative_zero && !is_scale) return code == numbers;
    return has_infinity ? magnitude > numbers : magnitude == numbers;
  }
};

template <class T>
const Reference& reference() {
  static const Reference made = [] {
    Reference r{};
    if constexpr (std::is_same_v<T, f16>) r = {16, 5, 10, 15, 0x7c00, true, false, true};
    if constexpr (std::is_same_v<T, bf16>) r = {16, 8, 7, 127, 0x7f80, true, false, true};
    if constexpr (std::is_same_v<T, e4m3>) r = {8, 4, 3, 7, 0x7f, false, false, true};
    if constexpr (std::is_same_v<T, e4m3fnuz>) r = {8, 4, 3, 8, 0x80, false, false, false};
    if constexpr (std::is_same_v<T, e5m2>) r = {8, 5, 2, 15, 0x7c, true, false, true};
    if constexpr (std::is_same_v<T, e8m0>) r = {8, 8, 0, 127, 0xff, false, true, false};
    r.fill();
    return r;
  }();
  return made;
}

// All numbers of the format and all midpoints, each with its nearest f32 neighbors, where rounding
// switches. Both signs.
template <class T>
std::vector<float> boundaries() {
  const Reference& r = reference<T>();
  std::vector<float> inputs;
  const auto add = [&](double x) {
    const float center = static_cast<float>(x);
    const float up = std::nextafter(center, INFINITY), down = std::nextafter(center, 0.0f);
    for (float y : {down, center, up}) {
      inputs.push_back(y);
      inputs.push_back(-y);
    }
  };
  for (uint32_t code = 0; code < r.numbers; ++code) {
    add(r.values[code]);
    add((r.values[code] + r.values[code + 1]) / 2);
  }
  return inputs;
}

// f32 patterns a prime stride apart, over all 2^32.
inline std::vector<float> strided(uint32_t stride) {
  std::vector<float> inputs;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride)
    inputs.push_back(from_bits(static_cast<uint32_t>(bits)));
  return inputs;
}

}  // namespace binade::formats::testing
