#include "binade/train/report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "train/report/drawing.h"

namespace binade::train {
namespace {

using test::Axis;
using test::Drawing;
using test::drawing_of;
using test::Point;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_reads(const Drawing& drawing, const std::vector<Point>& drawn,
                  const std::vector<Point>& expected) {
  const Axis x = x_axis(drawing), y = y_axis(drawing);
  ASSERT_GE(x.ticks.size(), 2u);
  ASSERT_GE(y.ticks.size(), 2u);
  ASSERT_EQ(drawn.size(), expected.size());
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_NEAR(x.at(drawn[i].first), expected[i].first, x.tolerance()) << i;
    EXPECT_NEAR(y.at(drawn[i].second), expected[i].second, y.tolerance()) << i;
  }
}

// Nothing sticks out, and no text of the axes or the legend covers another.
void expect_tidy(const Drawing& drawing) {
  for (const Drawing::Text& text : drawing.texts) {
    if (text.content.empty() || (text.x == 0 && text.y == 0)) continue;  // turned by its own rule
    EXPECT_GE(text.left(), -4) << text.content;
    EXPECT_LE(text.right(), drawing.width + 12) << text.content;
    EXPECT_GE(text.y, 8) << text.content;
    EXPECT_LE(text.y, drawing.height) << text.content;
    for (const Drawing::Text& other : drawing.texts) {
      if (&other <= &text || (other.x == 0 && other.y == 0) || std::abs(other.y - text.y) > 6)
        continue;
      EXPECT_TRUE(text.right() <= other.left() + 4 || other.right() <= text.left() + 4)
          << text.content << " and " << other.content;
    }
  }
  for (const Drawing::Path& path : drawing.paths)
    for (const auto& stroke : path.strokes)
      for (const auto& [x, y] : stroke) {
        EXPECT_TRUE(x >= 0 && x <= drawing.width) << x;
        EXPECT_TRUE(y >= 0 && y <= drawing.height) << y;
      }
}

const Series uneven{"uneven", {{3, 1.5}, {10, 7.25}, {12, 4}, {31, 11.5}}, {.color = 3}};
const Series falling{
    "falling", {{3, 10}, {20, -2.5}, {31, 6}}, {.color = 5, .dash = 2, .markers = true}};

TEST(LineChart, PointsReadBackFromTheAxes) {
  const Drawing drawing = drawing_of(line_chart({"t", "x", "y"}, {uneven, falling}));
  ASSERT_NE(drawing.path("s3"), nullptr);
  ASSERT_NE(drawing.path("s5 d2"), nullptr);
  ASSERT_EQ(drawing.path("s3")->strokes.size(), 1u);
  expect_reads(drawing, drawing.path("s3")->strokes[0], uneven.points);
  expect_reads(drawing, drawing.path("s5 d2")->strokes[0], falling.points);
  expect_reads(drawing, drawing.markers, falling.points);  // only one series has markers
  expect_tidy(drawing);
}

TEST(LineChart, LargeAndSmallNumbersReadBackToo) {
  for (const double unit : {1e-4, 0.01, 1e3, 2.5e6, 3e9}) {
    Series scaled = uneven;
    for (Point& point : scaled.points) point.second *= unit;
    const Drawing drawing = drawing_of(line_chart({"t", "x", "y"}, {scaled}));
    ASSERT_NE(drawing.path("s3"), nullptr) << unit;
    expect_reads(drawing, drawing.path("s3")->strokes[0], scaled.points);
    expect_tidy(drawing);
  }
}

TEST(LineChart, ValuesThatAreNotFiniteLeaveAGap) {
  const Series broken{
      "s", {{1, 1}, {2, 3}, {3, std::nan("")}, {4, 2}, {5, INFINITY}, {6, 5}}, {.color = 0}};
  const Drawing drawing = drawing_of(line_chart({"t", "x", "y"}, {broken}));
  const auto& strokes = drawing.path("s0")->strokes;
  ASSERT_EQ(strokes.size(), 3u);
  expect_reads(drawing, strokes[0], {{1, 1}, {2, 3}});
  expect_reads(drawing, strokes[1], {{4, 2}});
  expect_reads(drawing, strokes[2], {{6, 5}});
}

TEST(LineChart, TheFrameHoldsTheCurve) {
  const Drawing drawing = drawing_of(line_chart({"t", "the x", "the y"}, {uneven}));
  const std::vector<Point> axis = drawing.path("axis")->strokes.at(0);
  ASSERT_EQ(axis.size(), 3u);  // down the left side, then to the right
  const auto [left, top] = axis[0];
  const auto [right, floor] = axis[2];
  EXPECT_EQ(axis[1], Point(left, floor));
  EXPECT_EQ(drawing.width, 460);
  const auto& points = drawing.path("s3")->strokes[0];
  EXPECT_NEAR(points.front().first, left, 0.1);
  EXPECT_NEAR(points.back().first, right, 0.1);
  EXPECT_NEAR(points.back().second, top, 0.1);  // the highest
  EXPECT_LT(points.front().second, floor);      // the lowest keeps off the axis, by 4%
  EXPECT_NEAR((floor - points.front().second) / (points.front().second - top), 0.04, 0.002);
  for (const Drawing::Line& line : drawing.lines) {
    EXPECT_EQ(line.css, "grid");
    EXPECT_NEAR(line.from.first, left, 0.1);
    EXPECT_NEAR(line.to.first, right, 0.1);
    EXPECT_EQ(line.from.second, line.to.second);
    EXPECT_TRUE(line.from.second >= top && line.from.second <= floor);
  }
  const Drawing::Text* const label = drawing.text("the x");
  ASSERT_NE(label, nullptr);
  EXPECT_NEAR(label->x, (left + right) / 2, 0.1);
  EXPECT_GT(label->y, floor + 18);  // below the numbers of the axis
  for (const Drawing::Text& text : drawing.texts)
    if (text.css == "tick" && text.anchor == "middle") {
      EXPECT_TRUE(text.y > floor && text.y < label->y);
      EXPECT_TRUE(text.x >= left - 0.1 && text.x <= right + 0.1);
    }
  EXPECT_THAT(line_chart({"t", "the x", "the y"}, {uneven}),
              HasSubstr("translate(13 125) rotate(-90)\">the y<"));  // beside the middle
}

TEST(LineChart, AnAxisOfPositiveNumbersEndsAtZero) {
  const Series near_zero{"s", {{0, 0.01}, {1, 1}}, {.color = 0}};
  const Drawing padded = drawing_of(line_chart({"t", "x", "y"}, {near_zero}));
  const double floor = padded.path("axis")->strokes[0][1].second;
  EXPECT_NEAR(y_axis(padded).at(floor), 0, y_axis(padded).tolerance());
  const Series high{"s", {{0, 50}, {1, 60}}, {.color = 0}};
  const Drawing cut = drawing_of(line_chart({"t", "x", "y"}, {high}));
  EXPECT_NEAR(y_axis(cut).at(cut.path("axis")->strokes[0][1].second), 49.6, 0.1);
  const Drawing from_zero = drawing_of(
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .from_zero = true}, {high}));
  EXPECT_NEAR(y_axis(from_zero).at(from_zero.path("axis")->strokes[0][1].second), 0, 0.1);
  const Series negative{"s", {{0, -1}, {1, 1}}, {.color = 0}};
  const Drawing below = drawing_of(line_chart({"t", "x", "y"}, {negative}));
  EXPECT_NEAR(y_axis(below).at(below.path("axis")->strokes[0][1].second), -1.08, 0.01);
}

TEST(LineChart, AConstantIsInTheMiddleOfItsTenthAndZeroOfOne) {
  for (const auto& [value, half] : {std::pair(0.0, 1.0), {20.0, 2.0}, {-5.0, 0.5}}) {
    const Series flat{"s", {{1, value}, {2, value}}, {.color = 0}};
    const Drawing drawing = drawing_of(line_chart({"t", "x", "y"}, {flat}));
    const Axis y = y_axis(drawing);
    EXPECT_NEAR(y.at(drawing.path("axis")->strokes[0][0].second), value + half, y.tolerance());
    EXPECT_NEAR(y.at(drawing.path("s0")->strokes[0][0].second), value, y.tolerance());
  }
}

TEST(LineChart, LargerValuesAreAtTheEdgeAndCounted) {
  const Series spikes{"s", {{0, 1}, {1, 40}, {2, 4}, {3, 900}, {4, 5}}, {.color = 0}};
  const Drawing drawing =
      drawing_of(line_chart({.title = "t", .x_label = "x", .y_label = "y", .y_max = 5}, {spikes}));
  expect_reads(drawing, drawing.path("s0")->strokes[0], {{0, 1}, {1, 5}, {2, 4}, {3, 5}, {4, 5}});
  EXPECT_NE(drawing.text("2 higher, up to 900"), nullptr);
  expect_tidy(drawing);
  // A limit below everything still leaves a chart.
  const Drawing all = drawing_of(
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .y_max = 0.5}, {spikes}));
  EXPECT_NE(all.text("4 higher, up to 900"), nullptr);
}

TEST(LineChart, TheLegendNamesLinesInRowsAboveTheFrame) {
  std::vector<Series> series;
  for (int i = 0; i < 5; ++i)
    series.push_back({"a line of many " + std::to_string(i), {{0, i}, {1, i + 5.0}}});
  const Drawing drawing = drawing_of(line_chart({"t", "x", "y"}, series));
  std::vector<double> rows;
  for (int i = 0; i < 5; ++i) {
    const Drawing::Text* const name = drawing.text(series[static_cast<size_t>(i)].name);
    ASSERT_NE(name, nullptr);
    const auto line =
        std::find_if(drawing.lines.begin(), drawing.lines.end(),
                     [&](const Drawing::Line& one) { return one.css == "s" + std::to_string(i); });
    ASSERT_NE(line, drawing.lines.end());
    EXPECT_EQ(line->from.second, line->to.second);
    EXPECT_NEAR(line->from.second, name->y - 4, 0.1);
    EXPECT_NEAR(line->to.first - line->from.first, 22, 0.1);
    EXPECT_NEAR(name->x - line->to.first, 4, 0.1);
    EXPECT_LT(name->y, drawing.path("axis")->strokes[0][0].second);
    rows.push_back(name->y);
  }
  // Two fit into a row of 460.
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_GT(rows[2], rows[1] + 12);
  EXPECT_EQ(rows[2], rows[3]);
  EXPECT_EQ(rows[4] - rows[2], rows[2] - rows[0]);
  // Three rows, so the frame is as high as one below two.
  const auto frame_of = [](const Drawing& one) {
    const auto& axis = one.path("axis")->strokes[0];
    return axis[1].second - axis[0].second;
  };
  series.resize(3);
  EXPECT_EQ(frame_of(drawing), frame_of(drawing_of(line_chart({"t", "x", "y"}, series))));
  expect_tidy(drawing);
}

TEST(LineChart, ALineOnAnotherIsDashedAndCounted) {
  const Series one{"one", {{0, 0}, {1, 100}, {2, 50}}, {.color = 0, .markers = true}};
  const auto with = [&one](std::vector<Series> others) {
    others.insert(others.begin(), one);
    return drawing_of(line_chart({"t", "x", "y"}, others));
  };
  const auto named = [&one](const char* name, int color, double shift) {
    Series other = one;
    other.name = name;
    other.style.color = color;
    other.points[1].second -= shift;
    return other;
  };
  const Drawing none = with({named("two", 1, 2)});
  EXPECT_NE(none.path("s1"), nullptr);
  EXPECT_EQ(none.markers.size(), 6u);
  EXPECT_THAT(none.contents("tick"), Not(Contains(HasSubstr("on another"))));
  // Less than a pixel of the frame's some 170 for 100.
  const Drawing pair = with({named("two", 1, 0.1)});
  EXPECT_NE(pair.path("s1 d1"), nullptr);
  EXPECT_EQ(pair.markers.size(), 3u);
  EXPECT_THAT(pair.contents("tick"), Contains("1 dashed line lies on another"));
  const Drawing three = with({named("two", 1, 0), named("three", 2, 0)});
  EXPECT_NE(three.path("s2 d2"), nullptr);
  EXPECT_THAT(three.contents("tick"), Contains("2 dashed lines lie on another"));
  expect_tidy(three);
  // Equal values elsewhere, or fewer of them, hide nothing.
  Series later = named("two", 1, 0);
  later.points[2].first = 1.5;
  EXPECT_NE(with({later}).path("s1"), nullptr);
  Series shorter = named("two", 1, 0);
  shorter.points.pop_back();
  EXPECT_NE(with({shorter}).path("s1"), nullptr);
}

TEST(LineChart, ABandIsAsWideAsItsValues) {
  const Drawing drawing =
      drawing_of(line_chart({.title = "t",
                             .x_label = "x",
                             .y_label = "y",
                             .band = Band{"noise", {{0, -3, 1}, {2, -2, 4}, {5, 0, 9}}}},
                            {{"s", {{0, 0}, {5, 0.5}}, {.color = 0}}}));
  ASSERT_NE(drawing.path("band"), nullptr);
  // There along the upper values, back along the lower.
  expect_reads(drawing, drawing.path("band")->strokes[0],
               {{0, 1}, {2, 4}, {5, 9}, {5, 0}, {2, -2}, {0, -3}});
  expect_tidy(drawing);
}

TEST(LineChart, OneOfTwoPointsIsMarkedOnlyWithoutALine) {
  EXPECT_EQ(drawing_of(line_chart({"t", "x", "y"}, {{"s", {{1, 2}}}})).markers.size(), 1u);
  EXPECT_EQ(drawing_of(line_chart({"t", "x", "y"}, {{"s", {{1, 2}, {2, 3}}}})).markers.size(), 0u);
  Series many{"s", {}, {.color = 0, .markers = true}};
  for (int i = 0; i < 60; ++i) many.points.emplace_back(i, i);
  EXPECT_EQ(drawing_of(line_chart({"t", "x", "y"}, {many})).markers.size(), 60u);
  many.points.emplace_back(60, 60);
  EXPECT_EQ(drawing_of(line_chart({"t", "x", "y"}, {many})).markers.size(), 0u);
}

// 1,201 points become the extremes of 600 stretches, in their order.
TEST(LineChart, ThinnedCurvesKeepTheExtremesOfEachStretch) {
  Series series{"s", {}, {.color = 0}};
  for (int i = 0; i < 1200; ++i) series.points.emplace_back(i, i % 7);
  const auto points = [&series] {
    return drawing_of(line_chart({"t", "x", "y"}, {series})).path("s0")->strokes[0];
  };
  EXPECT_EQ(points().size(), 1200u);
  for (int i = 1200; i < 6000; ++i) series.points.emplace_back(i, i % 7);
  const auto thinned = points();
  EXPECT_EQ(thinned.size(), 1200u);
  EXPECT_TRUE(std::is_sorted(thinned.begin(), thinned.end(),
                             [](const Point& a, const Point& b) { return a.first < b.first; }));
}

// What the page's script reads: the values themselves, with gaps, and the ends of the axes.
TEST(LineChart, CarriesItsValues) {
  const double gap = std::nan("");
  const std::string svg = line_chart(
      {.title = "t",
       .x_label = "step",
       .y_label = "y",
       .from_zero = true,
       .band = Band{"noise", {{1, 2, 3}, {4, 2.5, 3.5}}}},
      {{"a \"b\"", {{1, 2.25}, {2, 1e-7}, {3, gap}, {4, 123456}}}, {"c", {{1, gap}, {2, 5}}}});
  EXPECT_THAT(
      svg, HasSubstr("data-name=\"a &quot;b&quot;\" data-points=\"1,2.25 2,1e-07;4,1.2346e+05\""));
  EXPECT_THAT(svg, HasSubstr("data-name=\"c\" data-points=\"2,5\""));
  EXPECT_THAT(svg, HasSubstr("data-band=\"1,2,3 4,2.5,3.5\""));
  EXPECT_THAT(svg, HasSubstr("data-x=\"1 4\" data-y=\"0 123456\""));
  EXPECT_THAT(svg, HasSubstr("data-label=\"step\" data-zero=\"1\""));
  // A name in the legend for each curve, not for the band.
  size_t keys = 0;
  for (size_t at = 0; (at = svg.find("class=\"key\"", at)) != svg.npos; ++at) ++keys;
  EXPECT_EQ(keys, 2u);
}

TEST(BarChart, LengthsAreInProportionAndLabelsBehindThem) {
  const Drawing drawing = drawing_of(bar_chart("Bytes", {{"weights", 30, "30 B", {.color = 2}},
                                                         {"rest", 120, "120 B", {.color = 4}},
                                                         {"none", 0, "0 B", {.color = 1}}}));
  EXPECT_EQ(drawing.title, "Bytes");
  ASSERT_EQ(drawing.areas.size(), 3u);
  EXPECT_NEAR(drawing.areas[1].width / drawing.areas[0].width, 4, 0.01);
  EXPECT_EQ(drawing.areas[2].width, 0);
  EXPECT_EQ(drawing.areas[0].css, "f2");
  EXPECT_EQ(drawing.areas[1].css, "f4");
  const char* const names[] = {"weights", "rest", "none"};
  const char* const labels[] = {"30 B", "120 B", "0 B"};
  for (size_t i = 0; i < 3; ++i) {
    const Drawing::Area& bar = drawing.areas[i];
    const Drawing::Text *name = drawing.text(names[i]), *label = drawing.text(labels[i]);
    ASSERT_TRUE(name != nullptr && label != nullptr);
    EXPECT_LE(name->right(), bar.x);
    EXPECT_NEAR(label->x, bar.x + bar.width + 8, 0.11);
    EXPECT_TRUE(name->y > bar.y && name->y < bar.y + bar.height);
    EXPECT_TRUE(label->y > bar.y && label->y < bar.y + bar.height);
    EXPECT_LE(bar.y + bar.height, drawing.height);
    if (i > 0) {
      EXPECT_GT(bar.y, drawing.areas[i - 1].y + drawing.areas[i - 1].height);
    }
  }
  expect_tidy(drawing);
  EXPECT_EQ(bar_chart("Bytes", {{"weights", 0, "0 B"}}), "");
}

TEST(BarChart, LongNamesStandAboveTheirBars) {
  const std::string name = "a name that takes a third";
  const Drawing drawing =
      drawing_of(bar_chart("Bytes", {{name, 30, "30 B"}, {"short", 60, "60 B"}}));
  ASSERT_EQ(drawing.areas.size(), 2u);
  EXPECT_EQ(drawing.areas[0].x, 0);
  EXPECT_LT(drawing.text(name)->y, drawing.areas[0].y);
  EXPECT_GT(drawing.text("short")->y, drawing.areas[0].y + drawing.areas[0].height);
  EXPECT_LT(drawing.text("short")->y, drawing.areas[1].y);
  expect_tidy(drawing);
}

TEST(BarChart, PartsFollowEachOtherAndTheLegendNamesThem) {
  const Drawing drawing = drawing_of(stacked_bar_chart(
      "Time", {"compute", "wait"}, {{"rank 0", {6, 2}, "8 s"}, {"rank 1", {3, 13}, "16 s"}}));
  std::vector<Drawing::Area> bars;
  for (const Drawing::Area& area : drawing.areas)
    if (area.width != 12) bars.push_back(area);  // squares of the legend
  ASSERT_EQ(drawing.areas.size(), 6u);
  ASSERT_EQ(bars.size(), 4u);
  const double unit = bars[0].width / 6;
  const double expected[] = {6, 2, 3, 13};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(bars[i].width / unit, expected[i], 0.02);
    EXPECT_EQ(bars[i].css, i % 2 == 0 ? "n0" : "n1");
  }
  EXPECT_NEAR(bars[1].x, bars[0].x + bars[0].width, 0.11);
  EXPECT_NEAR(bars[3].x, bars[2].x + bars[2].width, 0.11);
  EXPECT_EQ(bars[0].y, bars[1].y);
  for (const char* part : {"compute", "wait"}) {
    ASSERT_NE(drawing.text(part), nullptr);
    EXPECT_LT(drawing.text(part)->y, bars[0].y);
  }
  EXPECT_NEAR(drawing.text("16 s")->x, bars[3].x + bars[3].width + 8, 0.11);
  expect_tidy(drawing);
}

TEST(Chart, TicksKeepTheirDistanceFromOneStepToTen) {
  EXPECT_THAT(ticks(0, 9, 1), ElementsAre(0));  // 10 is the next
  EXPECT_THAT(ticks(0, 1, 1), ElementsAre(0, 1));
  EXPECT_THAT(ticks(0, 60, 5), ElementsAre(0, 20, 40, 60));
  EXPECT_THAT(ticks(-30, -10, 4), ElementsAre(-30, -25, -20, -15, -10));
  EXPECT_THAT(ticks(0, 0.3, 3), ElementsAre(0, 0.1, 0.2, ::testing::DoubleEq(0.3)));
  EXPECT_TRUE(ticks(0, INFINITY, 5).empty());
  EXPECT_EQ(tick_text(9999), "9999");
  EXPECT_EQ(tick_text(10000), "10k");
  EXPECT_EQ(tick_text(2.5e9), "2.5G");
  EXPECT_EQ(tick_text(5e12), "5000G");
  EXPECT_EQ(tick_text(2.5e18), "2.5e18");
  EXPECT_EQ(tick_text(-1e38), "-1e38");
  EXPECT_EQ(tick_text(0.001), "0.001");
  EXPECT_EQ(tick_text(2.5e-4), "2.5e-4");
  EXPECT_EQ(tick_text(-1e-4), "-1e-4");
  EXPECT_EQ(tick_text(0), "0");
}

TEST(Chart, ARobustLimitNeedsTwentyValuesAndThriceTheUsual) {
  std::vector<Point> points;
  for (int i = 0; i < 18; ++i) points.emplace_back(i, 2);
  points.emplace_back(18, 100);
  points.emplace_back(19, std::nan(""));  // no value
  EXPECT_EQ(robust_limit(points), INFINITY);
  points.back().second = 2;
  EXPECT_EQ(robust_limit(points), INFINITY);  // the 97th percentile of 20 is the largest
  for (int i = 20; i < 40; ++i) points.emplace_back(i, 2);
  EXPECT_EQ(robust_limit(points), 3);
  points[18].second = 6;  // twice that room
  EXPECT_EQ(robust_limit(points), INFINITY);
  points[18].second = 6.1;
  EXPECT_EQ(robust_limit(points), 3);
}

TEST(Chart, TicksAreRoundNumbersInside) {
  EXPECT_THAT(ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(ticks(0.7, 2.9, 5), ElementsAre(1, 1.5, 2, 2.5));
  EXPECT_THAT(ticks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(ticks(3, 3, 5), ElementsAre());
}

TEST(Chart, GapsWherePointsAreNotFinite) {
  const std::string svg =
      line_chart({"t", "x", "y"}, {{"s", {{1, 1}, {2, std::nan("")}, {3, 2}, {4, INFINITY}}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(line_chart({"t", "x", "y"}, {{"s", {{1, std::nan("")}}}}), "");
}

TEST(Chart, OnePointAndConstantsHaveRoom) {
  const std::string svg = line_chart({"t", "x", "y"}, {{"s", {{5, 0}, {5, 0}}}});
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Chart, ThinningKeepsSpikes) {
  Series series{"s", {}};
  for (int i = 0; i < 100'000; ++i) series.points.emplace_back(i, i == 54'321 ? 100.0 : 1.0);
  const std::string svg = line_chart({"t", "x", "y"}, {series});
  EXPECT_LT(svg.size(), 40'000u);
  EXPECT_THAT(svg, HasSubstr(" 14.0L"));  // the top of the frame
}

TEST(Chart, ManyNamesTakeSeveralRowsAndTheFrameMakesRoom) {
  std::vector<Series> series;
  for (int i = 0; i < 10; ++i)
    series.push_back({"runs/a-rather-long-name-" + std::to_string(i), {{0, 0}, {1, 1.0 + i}}});
  const std::string svg = line_chart({"t", "x", "y"}, series);
  EXPECT_THAT(svg, HasSubstr("class=\"s7\""));
  EXPECT_THAT(svg, HasSubstr("class=\"s1 d1\""));
  EXPECT_THAT(svg, HasSubstr("y=\"207.0\""));  // the tenth row: each name fills one
  EXPECT_THAT(line_chart({"t", "x", "y"}, {series[0]}),
              Not(HasSubstr("rather-long-name-0</text>")));
}

TEST(Chart, AnAxisMayBeginAtZero) {
  const std::vector<Series> series = {{"s", {{0, 900}, {1, 1000}}}};
  EXPECT_THAT(line_chart({.title = "t", .x_label = "x", .y_label = "y"}, series),
              Not(HasSubstr(">0</text><line")));
  // 0 is a tick of y: its grid line follows the text of none or another.
  const std::string svg =
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .from_zero = true}, series);
  EXPECT_THAT(svg, HasSubstr("y=\"240.0\">0</text>"));  // at the bottom
}

TEST(Chart, LongNumbersLeaveRoomForTheLabel) {
  // The label's letters end at 20; numbers end 6 before the axis.
  const auto axis_of = [](double top) {
    const std::string svg = line_chart({"t", "x", "y"}, {{"s", {{0, 0}, {1, top}}}});
    const std::string begin = "class=\"axis\" d=\"M";
    return std::stod(svg.substr(svg.find(begin) + begin.size()));
  };
  const double width = 8.3;                             // of a letter on narrow screens
  EXPECT_GE(axis_of(3), 20 + 6 + 3 * width);            // "2.5"
  EXPECT_GE(axis_of(0.00061), 20 + 6 + 4 * width);      // "6e-4"
  EXPECT_GE(axis_of(0.0021), 20 + 6 + 6 * width);       // "0.0015"
  EXPECT_GE(axis_of(123'456'000), 20 + 6 + 4 * width);  // "100M"
  EXPECT_EQ(tick_text(0.0005), "5e-4");
  EXPECT_EQ(tick_text(0.00025), "2.5e-4");
  EXPECT_EQ(tick_text(-0.0001), "-1e-4");
  EXPECT_EQ(tick_text(0.001), "0.001");
  EXPECT_EQ(tick_text(0), "0");
}

TEST(Chart, EqualLinesAreToldApart) {
  const Series a{"first", {{0, 1}, {1, 2}, {2, 0}}}, b{"second", a.points},
      c{"third", {{0, 1}, {1, 2.5}, {2, 0}}};
  const std::string svg = line_chart({"t", "x", "y"}, {a, b, c});
  EXPECT_THAT(svg, HasSubstr(">first</text>"));
  EXPECT_THAT(svg, HasSubstr(">second</text>"));
  EXPECT_THAT(svg, HasSubstr(">1 dashed line lies on another</text>"));
  EXPECT_THAT(svg, HasSubstr("<path class=\"s1 d1\""));
  EXPECT_THAT(svg, HasSubstr(">third</text>"));
  EXPECT_THAT(svg, HasSubstr("<path class=\"s2\""));
  EXPECT_THAT(line_chart({"t", "x", "y"}, {a, c}), Not(HasSubstr("dashed")));
}

TEST(Chart, ALegendSaysWhichSeriesHasNoValues) {
  const std::string svg = line_chart(
      {"t", "x", "y"}, {{"some", {{0, 1}, {1, 2}}}, {"none", {{0, NAN}, {1, INFINITY}}}});
  EXPECT_THAT(svg, HasSubstr(">none (no values)</text>"));
  EXPECT_THAT(svg, HasSubstr(">some</text>"));
}

TEST(Chart, TextIsEscapedForPages) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escaped("a\u202eb\u009b\n\tc\u00e9"), "a\\xe2\\x80\\xaeb\\xc2\\x9b\n\tc\u00e9");
}

TEST(Chart, SmoothingKeepsStraightLines) {
  Series line{"s", {}};
  for (int i = 0; i < 50; ++i) line.points.emplace_back(i, 2.0 * i);
  EXPECT_EQ(smoothed(line, 5).points, line.points);
  // The mean of three, one at the ends.
  const Series bumps{"s", {{0, 0}, {1, 3}, {2, 0}, {3, 3}}},
      means{"s", {{0, 0}, {1, 1}, {2, 2}, {3, 3}}};
  EXPECT_EQ(smoothed(bumps, 4).points, means.points);
}

TEST(Chart, ARobustLimitIgnoresFewSpikes) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100; ++i) points.emplace_back(i, 1 + i % 3);
  EXPECT_EQ(robust_limit(points), INFINITY);
  points[50].second = 1000;
  EXPECT_EQ(robust_limit(points), 4.5);  // 1.5 times the usual maximum
  const std::string svg =
      line_chart({.title = "t", .x_label = "x", .y_label = "y", .y_max = robust_limit(points)},
                 {{"s", points}});
  EXPECT_THAT(svg, HasSubstr("1 higher, up to 1e+03"));
}

TEST(Chart, NumbersAreReadable) {
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(1500), "1500");
  EXPECT_EQ(tick_text(20000), "20k");
  EXPECT_EQ(tick_text(-1.5e6), "-1.5M");
}

// Every page has one color per format, whatever the name of the precision that uses it.
TEST(Chart, FormatsHaveOneColorEach) {
  const std::vector<std::vector<const char*>> formats = {
      {"f32", "fp32"},
      {"f16", "fp16", "fp16-noscale"},
      {"bf16"},
      {"tf32"},
      {"e4m3", "fp8", "fp8-delayed", "fp8-current", "fp8-row", "fp8-block", "fp8-mx"},
      {"e5m2"},
      {"e4m3fnuz"},
      {"e2m1"}};
  std::set<int> colors;
  for (const auto& names : formats) {
    for (const char* name : names)
      EXPECT_EQ(format_style(name).color, format_style(names[0]).color) << name;
    colors.insert(format_style(names[0]).color);
  }
  EXPECT_EQ(colors.size(), formats.size());
  EXPECT_EQ(colors.count(Style::by_position), 0u);
  EXPECT_EQ(format_style("loss").color, Style::by_position);
}

TEST(Chart, ABandIsNamedAndShaded) {
  const std::string svg = line_chart({.title = "t",
                                      .x_label = "x",
                                      .y_label = "y",
                                      .band = Band{"noise", {{0, -1, 1}, {1, -1, 1}}}},
                                     {{"s", {{0, 0}, {1, 0.5}}}});
  EXPECT_THAT(svg, HasSubstr("class=\"band\" d=\"M"));
  EXPECT_THAT(svg, HasSubstr(">noise<"));
}

}  // namespace
}  // namespace binade::train
