#include "binade/formats/codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "binade/base/error.h"

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

TEST(Codes, WiderFormatsAreRefused) { EXPECT_THROW(Coder{spec::f16}, Error); }

}  // namespace
}  // namespace binade::formats
