#include "binade/base/division.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

TEST(Division, RoundsToWholeUnits) {
  for (int64_t unit : {1, 3, 8}) {
    for (int64_t n = 0; n < 40; ++n) {
      EXPECT_EQ(round_down(n, unit), n - n % unit);
      EXPECT_EQ(round_up(n, unit), n % unit == 0 ? n : n - n % unit + unit);
      EXPECT_EQ(divide_up(n, unit) * unit, round_up(n, unit));
    }
  }
}

TEST(Division, RoundsUnsignedSizesPastTheSignedRange) {
  EXPECT_EQ(round_up(uint64_t{0x7fffffffffffffff}, uint64_t{64}), 0x8000000000000000u);
}

}  // namespace
}  // namespace binade
