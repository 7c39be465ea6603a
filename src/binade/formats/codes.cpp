#include "binade/formats/codes.h"

#include <algorithm>

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

// Whether round_run() can round: sums of the values and a power of two stay finite, and the last
// bit kept of small values is one that f32 has.
bool can_align(const Format& format, const detail::Fields& fields) {
  const int top = format.max_exponent() + 23 - format.mantissa_bits;
  return format.has_zero() && fields.min_exponent >= -126 && top <= 127;
}

// encode() to nearest even, saturating, without branches. Adding a power of two whose last bit is
// the last one kept rounds a value; what the sum's bits exceed the power's by is the number of
// units in the last place.
void round_run(const Format& format, const detail::Fields& fields, const float* values,
               size_t count, uint8_t* codes) {
  const int dropped = 23 - fields.mantissa_bits;
  const uint32_t lowest = static_cast<uint32_t>(fields.min_exponent + 127) << 23;
  const uint32_t up = static_cast<uint32_t>(dropped) << 23;
  const uint32_t max_bits = float_bits(static_cast<float>(format.max()));
  const uint32_t wrap = fields.specials == Specials::integer ? fields.sign_mask << 1 : 0;
  const uint32_t keeps_zero = format.has_negative_zero() ? 1 : 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = float_bits(values[i]), magnitude = bits & 0x7fffffff;
    const uint32_t bounded = std::min(magnitude, max_bits);
    const uint32_t exponent = std::max(bounded & 0x7f800000u, lowest);
    const uint32_t aligner = exponent + up;
    const float sum = float_from_bits(bounded) + float_from_bits(aligner);
    const uint32_t code = float_bits(sum) - aligner + ((exponent - lowest) >> dropped);
    const bool is_negative = (bits >> 31 & ((code != 0 ? 1u : 0u) | keeps_zero)) != 0;
    const uint32_t negative = wrap != 0 ? wrap - code : code | fields.sign_mask;
    codes[i] = static_cast<uint8_t>(is_negative ? negative : code);
  }
}

}  // namespace

Coder::Coder(const Format& format)
    : format_(checked_small(format)), fields_(detail::fields_of(format)), values_{} {
  for (uint32_t code = 0; code < uint32_t{1} << format.bits(); ++code)
    values_[code] = detail::decode_fields(fields_, code);
}

void Coder::encode_run(const float* values, size_t count, uint8_t* bytes) const {
  constexpr size_t chunk = 256;
  if (!can_align(format_, fields_) || !format_.is_signed())
    return encode_each(values, count, bytes);
  uint8_t codes[chunk];
  for (size_t begin = 0; begin < count; begin += chunk) {
    const size_t size = std::min(chunk, count - begin);
    uint32_t largest = 0;
    for (size_t i = 0; i < size; ++i)
      largest = std::max(largest, float_bits(values[begin + i]) & 0x7fffffffu);
    uint8_t* out = bytes + code_bytes(format_, static_cast<int64_t>(begin));
    if (largest > 0x7f800000) {  // NaN
      encode_each(values + begin, size, out);
    } else if (codes_per_byte(format_) == 1) {
      round_run(format_, fields_, values + begin, size, out);
    } else {
      codes[size - 1 + size % 2] = 0;
      round_run(format_, fields_, values + begin, size, codes);
      for (size_t i = 0; i < size; i += 2)
        out[i / 2] = static_cast<uint8_t>(codes[i] | codes[i + 1] << 4);
    }
  }
}

void Coder::encode_each(const float* values, size_t count, uint8_t* bytes) const {
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
