#include "binade/formats/codes.h"

#include <array>

#include "binade/base/error.h"

namespace binade::formats {
namespace {

using Encode = uint32_t (*)(float value);

// A format of up to 8 bits: how to encode, and the value of each code.
struct Coding {
  const Format* format;
  Encode encode;
  std::array<float, 256> values;
};

template <const Format& F>
constexpr Coding coding() {
  Coding result{
      &F,
      [](float value) { return encode<F>(value, Rounding::nearest_even, Overflow::saturate); },
      {}};
  for (uint32_t code = 0; code < uint32_t{1} << F.bits(); ++code)
    result.values[code] = decode<F>(code);
  return result;
}

constexpr Coding codings[] = {coding<spec::e4m3>(), coding<spec::e4m3fnuz>(), coding<spec::e5m2>(),
                              coding<spec::e8m0>(), coding<spec::e2m1>()};

const Coding& coding_of(const Format& format) {
  for (const Coding& one : codings) {
    if (*one.format == format) return one;
  }
  fail("formats", {.argument = "format", .expected = "one of up to 8 bits", .found = format.name});
}

}  // namespace

void encode_run(const Format& format, const float* values, size_t count, uint8_t* bytes) {
  const Encode encode = coding_of(format).encode;
  if (codes_per_byte(format) == 1) {
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(encode(values[i]));
    return;
  }
  for (size_t i = 0; i < count; i += 2) {
    const uint32_t high = i + 1 < count ? encode(values[i + 1]) : 0;
    bytes[i / 2] = static_cast<uint8_t>(encode(values[i]) | high << 4);
  }
}

void decode_run(const Format& format, const uint8_t* bytes, size_t count, float* values) {
  const std::array<float, 256>& value_of = coding_of(format).values;
  if (codes_per_byte(format) == 1) {
    for (size_t i = 0; i < count; ++i) values[i] = value_of[bytes[i]];
    return;
  }
  for (size_t i = 0; i < count; ++i) values[i] = value_of[bytes[i / 2] >> i % 2 * 4 & 15];
}

}  // namespace binade::formats
