#include "binade/lab/range_chart.h"

#include <gtest/gtest.h>

#include <cmath>

namespace binade::lab {
namespace {

// IEEE 754's and OCP's numbers: the smallest subnormal, the smallest normal and the largest.
TEST(RangeChart, FormatsHaveTheirKnownRanges) {
  struct Known {
    const char* name;
    double smallest, normal, largest;
  };
  const Known known[] = {{"f32", 0x1p-149, 0x1p-126, 0x1.fffffep127},
                         {"bf16", 0x1p-133, 0x1p-126, 0x1.fep127},
                         {"f16", 0x1p-24, 0x1p-14, 65504},
                         {"e5m2", 0x1p-16, 0x1p-14, 57344},
                         {"e4m3", 0x1p-9, 0x1p-6, 448},
                         {"e4m3fnuz", 0x1p-10, 0x1p-7, 240}};
  const std::vector<RangeBar> bars = format_ranges();
  ASSERT_EQ(bars.size(), std::size(known));
  for (size_t i = 0; i < bars.size(); ++i) {
    EXPECT_EQ(bars[i].name, known[i].name);
    EXPECT_DOUBLE_EQ(bars[i].low, std::log2(known[i].smallest)) << known[i].name;
    EXPECT_DOUBLE_EQ(bars[i].from_normal, std::log2(known[i].normal)) << known[i].name;
    EXPECT_DOUBLE_EQ(bars[i].high, std::log2(known[i].largest)) << known[i].name;
  }
}

}  // namespace
}  // namespace binade::lab
