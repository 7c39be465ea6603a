#include "binade/formats/dynamic_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace binade::formats {
namespace {

using Numbers = std::array<float, 256>;

constexpr int decades = 7;

// Decade i holds the centers of 2^i (both signs) or 2^(i + 1) equal parts of 0.1 to 1, scaled.
Numbers make_numbers(DynamicSign sign) {
  const bool is_signed = sign == DynamicSign::either;
  Numbers numbers{};
  size_t next = 0;
  for (int i = 0; i < decades; ++i) {
    const int parts = 1 << (is_signed ? i : i + 1);
    const double power = std::pow(10.0, i + 1 - decades);
    for (int part = 0; part < parts; ++part) {
      const auto center = static_cast<float>(0.1 + 0.9 * (part + 0.5) / parts);
      const auto number = static_cast<float>(power * center);
      numbers[next++] = number;
      if (is_signed) numbers[next++] = -number;
    }
  }
  numbers[next++] = 0;
  numbers[next] = 1;
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The nearest number above zero by a table over the leading bits of a float: the sign is dropped
// (0 to 1 remains), 8 bits of exponent and 6 of mantissa select a cell with few numbers.
class Nearest {
 public:
  explicit Nearest(const Numbers& numbers) {
    zero_ = static_cast<int>(std::find(numbers.begin(), numbers.end(), 0.0f) - numbers.begin());
    // middles_[i]: halfway between number i and i + 1, counted from zero.
    for (int i = zero_; i < 255; ++i) {
      const auto at = static_cast<size_t>(i);
      middles_[static_cast<size_t>(i - zero_)] = (numbers[at] + numbers[at + 1]) / 2;
    }
    middles_[static_cast<size_t>(255 - zero_)] = std::numeric_limits<float>::infinity();
    for (uint32_t cell = 0; cell < first_.size(); ++cell) {
      const float lowest = std::bit_cast<float>(cell << shift);
      int index = 0;
      while (lowest > middles_[static_cast<size_t>(index)]) ++index;
      first_[cell] = static_cast<uint8_t>(index);
    }
  }

  // The index, counted from zero, of the number nearest to x in [0, 1].
  int of(float x) const {
    int index = first_[std::bit_cast<uint32_t>(x) >> shift];
    while (x > middles_[static_cast<size_t>(index)]) ++index;
    return index;
  }
  int zero() const { return zero_; }

 private:
  static constexpr int shift = 23 - 6;
  int zero_;
  std::array<float, 256> middles_{};
  std::array<uint8_t, (std::bit_cast<uint32_t>(1.0f) >> shift) + 1> first_{};
};

const Numbers& numbers_of(DynamicSign sign) {
  static const Numbers either = make_numbers(DynamicSign::either),
                       positive = make_numbers(DynamicSign::positive);
  return sign == DynamicSign::either ? either : positive;
}

const Nearest& nearest_of(DynamicSign sign) {
  static const Nearest either(numbers_of(DynamicSign::either)),
      positive(numbers_of(DynamicSign::positive));
  return sign == DynamicSign::either ? either : positive;
}

void encode_block(const float* values, int64_t n, const DynamicBlocks& to) {
  float largest = 0, poison = 0;  // zero times a non-finite value is NaN
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::fabs(values[i]));
    poison += values[i] * 0.0f;
  }
  const Nearest& nearest = nearest_of(to.sign);
  const auto zero = static_cast<uint8_t>(nearest.zero());
  *to.scales = std::isnan(poison) ? std::numeric_limits<float>::quiet_NaN() : largest;
  if (largest == 0 || std::isnan(poison)) {
    std::fill_n(to.codes, n, zero);
    return;
  }
  // Not a factor, which would be infinite for the smallest scales.
  for (int64_t i = 0; i < n; ++i) {
    const int index = nearest.of(std::fabs(values[i]) / largest);
    if (to.sign == DynamicSign::positive) {
      to.codes[i] = static_cast<uint8_t>(values[i] > 0 ? std::max(index, 1) : 0);
    } else {
      // The largest number has no negative counterpart.
      const int offset = std::signbit(values[i]) ? -std::min<int>(index, zero) : index;
      to.codes[i] = static_cast<uint8_t>(zero + offset);
    }
  }
}

}  // namespace

std::span<const float, 256> dynamic_codes(DynamicSign sign) { return numbers_of(sign); }

void encode_dynamic(const float* values, int64_t n, const DynamicBlocks& to) {
  for (int64_t at = 0; at < n; at += dynamic_block) {
    encode_block(values + at, std::min(dynamic_block, n - at),
                 {to.codes + at, to.scales + at / dynamic_block, to.sign});
  }
}

void decode_dynamic(const DynamicBlocks& from, float* values, int64_t n) {
  const Numbers& numbers = numbers_of(from.sign);
  for (int64_t i = 0; i < n; ++i)
    values[i] = numbers[from.codes[i]] * from.scales[i / dynamic_block];
}

}  // namespace binade::formats
