#include "binade/formats/codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/formats/parse.h"
#include "formats/targets.h"

namespace binade::formats {
namespace {

constexpr const Format* small[] = {&spec::e4m3, &spec::e4m3fnuz, &spec::e5m2, &spec::e8m0,
                                   &spec::e2m1};

TEST(Codes, TwoOfFourBitsShareAByteTheFirstInItsLowHalf) {
  const std::vector<float> values = {0.5f, -6, 1.5f, 0, -0.0f};
  std::vector<uint8_t> bytes(4, 0xEE);
  Coder(spec::e2m1).encode_run(values.data(), values.size(), bytes.data());
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0xF1, 0x03, 0x08, 0xEE}));
  std::vector<float> back(5, 99);
  Coder(spec::e2m1).decode_run(bytes.data(), 5, back.data());
  EXPECT_EQ(back, values);
  EXPECT_TRUE(std::signbit(back[4]));
  EXPECT_EQ(code_bytes(spec::e2m1, 5), 3);
  EXPECT_EQ(code_bytes(spec::e2m1, 4), 2);
  EXPECT_EQ(code_bytes(spec::e2m1, 0), 0);
  EXPECT_EQ(code_bytes(spec::e4m3, 5), 5);
}

TEST(Codes, EveryCodeOfEveryFormatComesBack) {
  for (const Format* format : small) {
    for (uint32_t code = 0; code < uint32_t{1} << format->bits(); ++code) {
      SCOPED_TRACE(std::string(format->name) + " " + std::to_string(code));
      const auto byte = static_cast<uint8_t>(code);
      float value = 0;
      Coder(*format).decode_run(&byte, 1, &value);
      if (!std::isfinite(value)) continue;  // saturates
      uint8_t again = 0xEE;
      Coder(*format).encode_run(&value, 1, &again);
      EXPECT_EQ(again, byte);
    }
  }
}

TEST(Codes, LargeValuesSaturateAndTiesGoToEvenCodes) {
  const std::vector<float> values = {
      7, 1e30f, -std::numeric_limits<float>::infinity(), 5, 2.5f, 1.75f, 0.25f, 0.75f};
  std::vector<uint8_t> bytes(4);
  Coder(spec::e2m1).encode_run(values.data(), values.size(), bytes.data());
  std::vector<float> back(8);
  Coder(spec::e2m1).decode_run(bytes.data(), 8, back.data());
  EXPECT_EQ(back, (std::vector<float>{6, 6, -6, 4, 2, 2, 0, 1}));
}

// Numbers around all that a format has, both signs, and random bits without NaN.
std::vector<float> hard_values(const Coder& coder) {
  std::vector<float> values = {0.0f, -0.0f, 1e-45f, 3e38f, std::numeric_limits<float>::infinity()};
  for (uint32_t code = 0; code < uint32_t{1} << coder.format().bits(); ++code) {
    const float value = coder.decode(code);
    if (!std::isfinite(value)) continue;
    for (const float factor : {1.0f, 1.0625f, 1.25f, 1.5f, 0.75f, 1.0000001f})
      values.insert(values.end(), {value * factor, -value * factor});
  }
  for (uint32_t i = 0; i < 777; ++i) {
    const float value = float_from_bits(random::bits(7, 1, i));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

// The codes of a run, one per byte.
std::vector<uint8_t> one_each(const Format& format, const std::vector<uint8_t>& bytes,
                              size_t count) {
  std::vector<uint8_t> codes(count);
  for (size_t i = 0; i < count; ++i)
    codes[i] = codes_per_byte(format) == 2 ? bytes[i / 2] >> i % 2 * 4 & 15 : bytes[i];
  return codes;
}

TEST(Codes, RunsEqualSingleConversionsOnEveryInstructionSet) {
  for (const char* text :
       {"e4m3", "e5m2",  "e2m1",        "e2m3",     "e3m2",     "e3m4",    "int8",
        "int4", "int2",  "e4m3b11fnuz", "e5m2fnuz", "e4m3ieee", "e3m3f",   "e7m0",
        "e1m2", "ue5m3", "e8m0",        "e4m3b127", "e2m1ieee", "e7m0b100"}) {
    SCOPED_TRACE(text);
    const Coder coder(parse(text));
    const std::vector<float> values = hard_values(coder);
    std::vector<uint32_t> random(values.size());
    for (size_t i = 0; i < random.size(); ++i) random[i] = random::bits(11, 2, i);
    random[0] = 0xFFFFFFFF;
    std::vector<uint8_t> nearest, by_chance;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto code = [&](Rounding rounding) {
        return static_cast<uint8_t>(
            coder.encode(values[i], rounding, Overflow::saturate, random[i]));
      };
      nearest.push_back(code(Rounding::nearest_even));
      by_chance.push_back(code(Rounding::stochastic));
    }
    testing::for_each_target([&] {
      for (const size_t count : {values.size(), size_t{1}, size_t{255}, size_t{257}}) {
        const size_t size = std::min(count, values.size());
        const auto first = [size](const std::vector<uint8_t>& codes) {
          return std::vector<uint8_t>(codes.begin(), codes.begin() + static_cast<ptrdiff_t>(size));
        };
        std::vector<uint8_t> bytes(
            static_cast<size_t>(code_bytes(coder.format(), static_cast<int64_t>(size))) + 1, 0xEE);
        coder.encode_run(values.data(), random.data(), size, bytes.data());
        EXPECT_EQ(bytes.back(), 0xEE);
        EXPECT_EQ(one_each(coder.format(), bytes, size), first(by_chance));
        coder.encode_run(values.data(), size, bytes.data());
        EXPECT_EQ(bytes.back(), 0xEE);
        EXPECT_EQ(one_each(coder.format(), bytes, size), first(nearest));
        std::vector<float> back(size + 1, 99);
        coder.decode_run(bytes.data(), size, back.data());
        EXPECT_EQ(back[size], 99);
        for (size_t i = 0; i < size; ++i)
          EXPECT_EQ(float_bits(back[i]), float_bits(coder.decode(nearest[i]))) << values[i];
      }
    });
  }
}

TEST(Codes, NanInARunKeepsTheOthersCodes) {
  std::vector<float> values(300, 1.5f);
  values[280] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint8_t> bytes(300);
  Coder(spec::e4m3).encode_run(values.data(), values.size(), bytes.data());
  const Coder coder(spec::e4m3);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(bytes[i], coder.encode(values[i])) << i;
  std::vector<float> back(300);
  coder.decode_run(bytes.data(), 300, back.data());
  EXPECT_TRUE(std::isnan(back[280]));
  EXPECT_EQ(back[279], 1.5f);
}

TEST(Codes, WiderFormatsAreRefused) { EXPECT_THROW(Coder{spec::f16}, Error); }

}  // namespace
}  // namespace binade::formats
