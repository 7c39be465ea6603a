#pragma once

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

// Rounds to nearest even and saturates. NaN becomes NaN, or the largest number in a format without
// one.
void encode_run(const Format& format, const float* values, size_t count, uint8_t* bytes);
void decode_run(const Format& format, const uint8_t* bytes, size_t count, float* values);

}  // namespace binade::formats
