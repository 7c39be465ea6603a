#include "binade/formats/codes.h"

#include "binade/base/error.h"

namespace binade::formats {
namespace {

// Writes code(i) for each i, two to a byte if the format has up to 4 bits.
template <class F>
void write_codes(const Format& format, size_t count, uint8_t* bytes, F code) {
  if (codes_per_byte(format) == 1) {
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(code(i));
    return;
  }
  for (size_t i = 0; i < count; i += 2) {
    const uint32_t high = i + 1 < count ? code(i + 1) : 0;
    bytes[i / 2] = static_cast<uint8_t>(code(i) | high << 4);
  }
}

const Format& checked_small(const Format& format) {
  if (format.bits() > 8)
    fail("formats",
         {.argument = "format", .expected = "one of up to 8 bits", .found = format.name});
  return format;
}

}  // namespace

Coder::Coder(const Format& format)
    : format_(checked_small(format)), fields_(detail::fields_of(format)), values_{} {
  for (uint32_t code = 0; code < uint32_t{1} << format.bits(); ++code)
    values_[code] = detail::decode_fields(fields_, code);
}

void Coder::encode_run(const float* values, size_t count, uint8_t* bytes) const {
  write_codes(format_, count, bytes, [&](size_t i) {
    return encode(values[i], Rounding::nearest_even, Overflow::saturate);
  });
}

void Coder::encode_run(const float* values, const uint32_t* random, size_t count,
                       uint8_t* bytes) const {
  write_codes(format_, count, bytes, [&](size_t i) {
    return encode(values[i], Rounding::stochastic, Overflow::saturate, random[i]);
  });
}

void Coder::decode_run(const uint8_t* bytes, size_t count, float* values) const {
  if (codes_per_byte(format_) == 1) {
    for (size_t i = 0; i < count; ++i) values[i] = values_[bytes[i]];
    return;
  }
  for (size_t i = 0; i < count; ++i) values[i] = values_[bytes[i / 2] >> i % 2 * 4 & 15];
}

}  // namespace binade::formats
