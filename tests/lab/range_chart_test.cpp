#include "binade/lab/range_chart.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/report/drawing.h"

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

// The exponents of a chart's axis: a grid line each, with its power of two below.
test::Axis exponent_axis(const std::string& svg, const test::Drawing& drawing) {
  test::Axis axis;
  const auto powers = test::Pattern("dy=\"-5\">(-?[0-9.]+)<").find_all(svg);
  EXPECT_EQ(powers.size(), drawing.lines.size());
  for (size_t i = 0; i < powers.size(); ++i)
    axis.ticks.emplace_back(drawing.lines[i].from.first, std::stod(powers[i][1]));
  return axis;
}

TEST(RangeChart, BarsReachFromTheLeastToTheLargestNumber) {
  const std::vector<RangeBar> bars = {
      {"f16", -24, 16, -14}, {"e4m3", -9, 8.8, -6}, {"none", 3, 3, 3}};
  const std::string svg = range_chart("Ranges", bars);
  const test::Drawing drawing = test::drawing_of(svg);
  const test::Axis x = exponent_axis(svg, drawing);
  ASSERT_GE(x.ticks.size(), 2u);
  ASSERT_EQ(drawing.areas.size(), 4u);  // subnormal numbers are faint
  for (size_t i = 0; i < 4; ++i) {
    const test::Drawing::Area& area = drawing.areas[i];
    const RangeBar& bar = bars[i / 2];
    EXPECT_NEAR(x.at(area.x), i % 2 == 0 ? bar.low : bar.from_normal, 0.1);
    EXPECT_NEAR(x.at(area.x + area.width), i % 2 == 0 ? bar.from_normal : bar.high, 0.1);
    EXPECT_EQ(area.css, std::string(i < 2 ? "f1" : "f3") + (i % 2 == 0 ? " faint" : ""));
    const test::Drawing::Text* const name = drawing.text(bar.name);
    ASSERT_NE(name, nullptr);
    EXPECT_LT(name->right(), drawing.areas[0].x);
    EXPECT_TRUE(name->y > area.y && name->y < area.y + area.height);
    EXPECT_LE(area.y + area.height, drawing.height);
  }
  EXPECT_EQ(drawing.areas[0].y, drawing.areas[1].y);
  EXPECT_GT(drawing.areas[2].y, drawing.areas[1].y + drawing.areas[1].height);
  for (const test::Drawing::Line& line : drawing.lines) {
    EXPECT_EQ(line.from.first, line.to.first);
    EXPECT_LE(line.from.second, drawing.areas[0].y);
    EXPECT_GE(line.to.second, drawing.areas[3].y + drawing.areas[3].height);
  }
}

// A hill per row: as high as its fractions beside the largest of all, over a format's range.
TEST(RangeChart, HistogramsReadBack) {
  const ExponentHistogram low{.name = "low", .first = -3, .fractions = {0.1, 0.4}, .zeros = 0.25},
      high{.name = "high", .first = 2, .fractions = {0.8, 0, 0.2}, .zeros = 0.0001};
  const ExponentAxis axis{-10, 10};
  const std::string svg =
      histogram_chart("Exponents",
                      {{.name = "low",
                        .histogram = &low,
                        .style = {.color = 1},
                        .range = RangeBar{"f16", -24, 6, -14}},
                       {.name = "high", .histogram = &high, .style = {.color = 3}, .range = {}}},
                      axis);
  const test::Drawing drawing = test::drawing_of(svg);
  const test::Axis x = exponent_axis(svg, drawing);
  ASSERT_EQ(drawing.areas.size(), 1u);
  EXPECT_EQ(drawing.areas[0].css, "f1 range");
  EXPECT_NEAR(x.at(drawing.areas[0].x), -10, 0.1);  // cut at the edge
  EXPECT_NEAR(x.at(drawing.areas[0].x + drawing.areas[0].width), 6, 0.1);
  const ExponentHistogram* const histograms[] = {&low, &high};
  const char* const lines[] = {"s1", "s3"};
  for (size_t row = 0; row < 2; ++row) {
    ASSERT_NE(drawing.path(lines[row]), nullptr);
    const std::vector<test::Point> path = drawing.path(lines[row])->strokes.at(0);
    const std::vector<double>& fractions = histograms[row]->fractions;
    ASSERT_EQ(path.size(), 2 * fractions.size() + 2);
    const double floor = path.front().second, full = 46;
    EXPECT_NEAR(floor, 52 * static_cast<double>(row + 1), 0.1);
    EXPECT_EQ(path.back().second, floor);
    for (size_t i = 0; i < fractions.size(); ++i) {
      const auto at = static_cast<double>(histograms[row]->first) + static_cast<double>(i);
      EXPECT_NEAR(x.at(path[2 * i + 1].first), at, 0.1);
      EXPECT_NEAR(x.at(path[2 * i + 2].first), at + 1, 0.1);
      EXPECT_NEAR((floor - path[2 * i + 1].second) / full, fractions[i] / 0.8, 0.01);
      EXPECT_EQ(path[2 * i + 1].second, path[2 * i + 2].second);
    }
    const test::Drawing::Text* const name = drawing.text(histograms[row]->name);
    ASSERT_NE(name, nullptr);
    EXPECT_TRUE(name->y < floor && name->y > floor - 52);
  }
  ASSERT_NE(drawing.text("25.0% zeros"), nullptr);
  EXPECT_LT(drawing.text("25.0% zeros")->y, 52);
  EXPECT_GT(drawing.text("25.0% zeros")->y, drawing.text("low")->y);
  EXPECT_NE(drawing.text("&lt;0.1% zeros"), nullptr);
}

TEST(RangeChart, TheAxisHoldsEveryHistogramWithAMargin) {
  const ExponentHistogram inside{.name = "a", .first = -24, .fractions = {1}},
      below{.name = "b", .first = -30, .fractions = {0.5, 0.5}},
      above{.name = "c", .first = 17, .fractions = {0.5, 0.25, 0.25}},
      none{.name = "d", .first = -99};
  const auto expect = [](const ExponentAxis& axis, double low, double high) {
    EXPECT_EQ(axis.low, low);
    EXPECT_EQ(axis.high, high);
  };
  expect(ExponentAxis::around({&inside, &none}), -26, 18);
  expect(ExponentAxis::around({&inside, &below}), -32, 18);
  expect(ExponentAxis::around({&above, &inside}), -26, 22);
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
