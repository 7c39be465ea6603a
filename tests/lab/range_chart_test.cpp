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

// Bars are relative to the highest of all rows; a chart without values is none.
TEST(RangeChart, HistogramsShareOneScale) {
  const ExponentHistogram low{.name = "low", .first = -3, .fractions = {0.1, 0.2}},
      high{.name = "high", .first = 2, .fractions = {0.7, 0.1, 0.2}}, none{.name = "none"};
  const ExponentAxis axis = ExponentAxis::around({&low, &high, &none});
  const auto chart = [&](const std::vector<const ExponentHistogram*>& histograms) {
    std::vector<HistogramRow> rows;
    for (const ExponentHistogram* one : histograms)
      rows.push_back({.name = one->name, .histogram = one, .style = {}, .range = {}});
    return histogram_chart("exponents", rows, axis);
  };
  EXPECT_EQ(chart({&none}), "");
  EXPECT_NE(chart({&low}), "");
  // The same row is drawn smaller beside a higher one.
  const std::string alone = chart({&low}), beside = chart({&low, &high});
  const auto bars = [](const std::string& text) {
    const size_t begin = text.find("low");
    return text.substr(begin, text.find("high", begin) - begin);
  };
  EXPECT_NE(bars(alone).substr(0, bars(beside).size()), bars(beside));
}

}  // namespace
}  // namespace binade::lab
