#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "binade/formats/format.h"

// Codes of a format that is known at run time, in bytes. For formats of up to 8 bits.
namespace binade::formats {

// A byte holds two codes of up to 4 bits, the first in its low half, or one of more bits.
constexpr int codes_per_byte(const Format& format) { return format.bits() <= 4 ? 2 : 1; }

// The bytes of a run of codes, which starts at a byte. The last byte of an odd number of half bytes
// has 0 in its high half.
constexpr int64_t code_bytes(const Format& format, int64_t count) {
  return (count + codes_per_byte(format) - 1) / codes_per_byte(format);
}

// Conversions of one format.
class Coder {
 public:
  // Fails for a format of more than 8 bits.
  explicit Coder(const Format& format);

  const Format& format() const { return format_; }

  // As formats::encode<F> and decode<F>.
  uint32_t encode(float value, Rounding rounding = Rounding::nearest_even,
                  Overflow overflow = Overflow::special, uint32_t random = 0) const {
    return detail::encode_fields(fields_, value, rounding, overflow, random);
  }
  float decode(uint32_t code) const { return values_[code]; }

  // Rounds to nearest even and saturates. NaN becomes NaN, or the largest number in a format
  // without one.
  void encode_run(const float* values, size_t count, uint8_t* bytes) const;
  // Rounds by random bits, one word per value, and saturates.
  void encode_run(const float* values, const uint32_t* random, size_t count, uint8_t* bytes) const;
  void decode_run(const uint8_t* bytes, size_t count, float* values) const;

  // The same with a byte for each code, of formats of up to 4 bits, too; `random` may be null.
  void encode_codes(const float* values, const uint32_t* random, size_t count,
                    uint8_t* codes) const;
  void decode_codes(const uint8_t* codes, size_t count, float* values) const;

 private:
  // Up to detail::code_chunk codes; the array has room for that many.
  void encode_chunk(const float* values, const uint32_t* random, size_t count,
                    uint8_t* codes) const;
  void decode_chunk(const uint8_t* codes, size_t count, float* values) const;
  // Writes bytes of codes that are packed if their format is.
  void write(const float* values, const uint32_t* random, size_t count, uint8_t* bytes) const;

  Format format_;
  detail::Fields fields_;
  bool is_vectorized_;
  std::array<float, 256> values_;
};

}  // namespace binade::formats
