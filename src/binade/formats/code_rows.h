#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/formats/format.h"

// Runs of codes by a format that is known at run time, compiled once per instruction set. Not part
// of the public interface.
namespace binade::formats::detail {

// Codes are one per byte, of formats that can_vectorize(). No run has more than `code_chunk`
// elements; arrays of codes have room for that many.
inline constexpr size_t code_chunk = 256;

struct CodeRows {
  // Saturating: to nearest even, or by a word of `random` per value if there are any. False, with
  // nothing said about the codes, if a value is NaN.
  bool (*encode)(const Fields& fields, const float* values, const uint32_t* random, size_t count,
                 uint8_t* codes);
  // False, with nothing said about the values, if a code is no finite number.
  bool (*decode)(const Fields& fields, const uint8_t* codes, size_t count, float* values);
  // Two codes of up to 4 bits in a byte, the first in its low half; count is even.
  void (*pack)(const uint8_t* codes, size_t count, uint8_t* bytes);
  void (*unpack)(const uint8_t* bytes, size_t count, uint8_t* codes);
};

// Those of the best instruction set that the machine has.
const CodeRows& code_rows();

// Signed formats with a zero, for which sums of the values and a power of two stay finite and the
// last bit kept of small values is one that f32 has.
constexpr bool can_vectorize(const Format& format) {
  const int top = format.max_exponent() + 23 - format.mantissa_bits;
  return format.is_signed() && format.has_zero() && format.min_exponent() >= -126 && top <= 127;
}

}  // namespace binade::formats::detail
