#include "binade/formats/split_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace binade::formats {
namespace {

bool is_tie(uint32_t bits) { return (bits & 0xffff) == 0x8000; }

// All upper halves, with lower halves at and around both ends, the middle and elsewhere.
template <class F>
void for_many_floats(F check) {
  const uint32_t lower[] = {0,      1,      2,      0x00ff, 0x1234, 0x7ffe, 0x7fff,
                            0x8000, 0x8001, 0x8002, 0xabcd, 0xff00, 0xfffe, 0xffff};
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t low : lower) check(upper << 16 | low);
  }
}

TEST(SplitF32, LosesNothing) {
  int64_t checked = 0;
  for_many_floats([&](uint32_t bits) {
    const float x = float_from_bits(bits);
    const SplitF32 halves = split(x);
    const float back = join(halves.nearest, halves.rest);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(back)) << std::hex << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(halves.nearest))) << std::hex << bits;
      ASSERT_EQ(std::signbit(back), std::signbit(x)) << std::hex << bits;
    } else {
      ASSERT_EQ(float_bits(back), bits) << std::hex << bits;
    }
    ++checked;
  });
  EXPECT_EQ(checked, 14 * 65536);
}

// The bf16 number is the one that rounding to nearest even gives, except at ties.
TEST(SplitF32, RoundsToNearest) {
  int64_t ties_apart = 0;
  for_many_floats([&](uint32_t bits) {
    const float x = float_from_bits(bits);
    const bf16 found = split(x).nearest, even(x);
    if (std::isnan(x)) return;
    if (!is_tie(bits)) {
      ASSERT_EQ(found.bits, even.bits) << std::hex << bits;
      return;
    }
    // Away from zero: to the even neighbor, or to the odd one above it in magnitude.
    ASSERT_EQ(found.bits, (bits >> 16) + 1) << std::hex << bits;
    ASSERT_LE(found.bits - even.bits, 1);
    ties_apart += found.bits != even.bits;
  });
  // Half of the ties of finite numbers have an even upper half.
  EXPECT_EQ(ties_apart, 2 * 0x7f80 / 2);
}

// In double, where both neighbors and the middle are exact.
TEST(SplitF32, IsNearestByValue) {
  for_many_floats([&](uint32_t bits) {
    const float x = float_from_bits(bits), nearest = split(x).nearest;
    if (!std::isfinite(x) || !std::isfinite(nearest)) return;
    const auto distance = [&](uint32_t code) {
      return std::abs(double{bf16::from_bits(static_cast<uint16_t>(code))} - double{x});
    };
    const double own = std::abs(double{nearest} - double{x});
    ASSERT_LE(own, distance(bits >> 16)) << std::hex << bits;
    if ((bits >> 16 & 0x7fff) >= 0x7f7f) return;
    ASSERT_LE(own, distance((bits >> 16) + 1)) << std::hex << bits;
  });
}

TEST(SplitF32, KeepsLargeNumbersThatAreInfiniteInBf16) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isinf(static_cast<float>(split(largest).nearest)));
  EXPECT_EQ(join(split(largest).nearest, split(largest).rest), largest);
  EXPECT_EQ(join(split(-largest).nearest, split(-largest).rest), -largest);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(split(infinity).rest, 0);
  EXPECT_EQ(join(split(-infinity).nearest, split(-infinity).rest), -infinity);
}

// A weight that is written between two updates meets the rest of its former value.
TEST(SplitF32, RestOfAnotherNumberIsHarmless) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const bf16 written = bf16::from_bits(static_cast<uint16_t>(code));
    const float value = written;
    for (const int rest : {-32768, -32767, -1, 0, 1, 32767}) {
      const float x = join(written, static_cast<int16_t>(rest));
      ASSERT_EQ(std::isnan(x), std::isnan(value)) << std::hex << code << " " << rest;
      ASSERT_EQ(std::signbit(x), std::signbit(value)) << std::hex << code << " " << rest;
      if (std::isnan(x)) continue;
      ASSERT_TRUE(std::isfinite(x) || std::isinf(value)) << std::hex << code << " " << rest;
      // What is written stays written.
      ASSERT_EQ(split(x).nearest.bits, code) << std::hex << code << " " << rest;
    }
  }
}

}  // namespace
}  // namespace binade::formats
