#include "binade/formats/codes.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/formats/code_rows.h"

namespace binade::formats {
namespace {

using detail::code_chunk;

const Format& checked_small(const Format& format) {
  if (format.bits() > 8)
    fail("formats",
         {.argument = "format", .expected = "one of up to 8 bits", .found = format.name});
  return format;
}

}  // namespace

Coder::Coder(const Format& format)
    : format_(checked_small(format)),
      fields_(detail::fields_of(format)),
      is_vectorized_(detail::can_vectorize(format)),
      values_{} {
  for (uint32_t code = 0; code < uint32_t{1} << format.bits(); ++code)
    values_[code] = detail::decode_fields(fields_, code);
}

void Coder::encode_chunk(const float* values, const uint32_t* random, size_t count,
                         uint8_t* codes) const {
  if (is_vectorized_ && detail::code_rows().encode(fields_, values, random, count, codes)) return;
  const Rounding rounding = random != nullptr ? Rounding::stochastic : Rounding::nearest_even;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t word = random != nullptr ? random[i] : 0;
    codes[i] = static_cast<uint8_t>(encode(values[i], rounding, Overflow::saturate, word));
  }
}

void Coder::decode_chunk(const uint8_t* codes, size_t count, float* values) const {
  if (is_vectorized_ && detail::code_rows().decode(fields_, codes, count, values)) return;
  for (size_t i = 0; i < count; ++i) values[i] = values_[codes[i]];
}

void Coder::encode_codes(const float* values, const uint32_t* random, size_t count,
                         uint8_t* codes) const {
  uint8_t rest[code_chunk];
  for (size_t begin = 0; begin < count; begin += code_chunk) {
    const size_t size = std::min(code_chunk, count - begin);
    uint8_t* chunk = size == code_chunk ? codes + begin : rest;
    encode_chunk(values + begin, random == nullptr ? nullptr : random + begin, size, chunk);
    if (chunk == rest) std::copy_n(rest, size, codes + begin);
  }
}

void Coder::decode_codes(const uint8_t* codes, size_t count, float* values) const {
  uint8_t rest[code_chunk] = {};
  for (size_t begin = 0; begin < count; begin += code_chunk) {
    const size_t size = std::min(code_chunk, count - begin);
    if (size < code_chunk) std::copy_n(codes + begin, size, rest);
    decode_chunk(size == code_chunk ? codes + begin : rest, size, values + begin);
  }
}

void Coder::write(const float* values, const uint32_t* random, size_t count, uint8_t* bytes) const {
  if (codes_per_byte(format_) == 1) return encode_codes(values, random, count, bytes);
  uint8_t chunk[code_chunk];
  for (size_t begin = 0; begin < count; begin += code_chunk) {
    const size_t size = std::min(code_chunk, count - begin);
    encode_chunk(values + begin, random == nullptr ? nullptr : random + begin, size, chunk);
    if (size % 2 != 0) chunk[size] = 0;
    detail::code_rows().pack(chunk, size + size % 2, bytes + begin / 2);
  }
}

void Coder::encode_run(const float* values, size_t count, uint8_t* bytes) const {
  write(values, nullptr, count, bytes);
}

void Coder::encode_run(const float* values, const uint32_t* random, size_t count,
                       uint8_t* bytes) const {
  write(values, random, count, bytes);
}

void Coder::decode_run(const uint8_t* bytes, size_t count, float* values) const {
  if (codes_per_byte(format_) == 1) return decode_codes(bytes, count, values);
  uint8_t chunk[code_chunk] = {};
  for (size_t begin = 0; begin < count; begin += code_chunk) {
    const size_t size = std::min(code_chunk, count - begin);
    detail::code_rows().unpack(bytes + begin / 2, size + size % 2, chunk);
    decode_chunk(chunk, size, values + begin);
  }
}

}  // namespace binade::formats
