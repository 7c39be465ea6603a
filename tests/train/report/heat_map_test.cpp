#include "binade/train/report/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/report/drawing.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

size_t squares_of(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST(HeatMap, ShowsNamesStepsValuesAndALegend) {
  const double gap = std::numeric_limits<double>::quiet_NaN();
  const std::string svg =
      heat_map({.title = "Noise",
                .steps = {10, 20, 30},
                .rows = {{"first & best", {0, 50, 100}}, {"second", {gap, 1, 1}}},
                .light = 0,
                .dark = 100,
                .unit = "%",
                .style = {.color = 2}});
  for (const char* text : {"Noise", "first &amp; best", "second", ">10<", ">30<", ">step<", ">0 %<",
                           ">100 %<", "class=\"f2\""})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_EQ(squares_of(svg, "<rect"), 5u + 7u);  // values, and squares of the legend
  // The darkest value and the darkest square; a value in the middle and the square there.
  EXPECT_EQ(squares_of(svg, "fill-opacity=\"1.00\""), 2u);
  EXPECT_EQ(squares_of(svg, "fill-opacity=\"0.53\""), 2u);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(HeatMap, GoesByOrdersOfMagnitudeIfLogarithmic) {
  const std::string svg = heat_map({.title = "Harm",
                                    .steps = {1, 2, 3},
                                    .rows = {{"a", {0, 0.001, 0.1}}},
                                    .light = 0.01,
                                    .dark = 1,
                                    .logarithmic = true});
  // Both below the lightest, and the lightest of the legend; halfway, and its middle.
  EXPECT_EQ(squares_of(svg, "fill-opacity=\"0.06\""), 3u);
  EXPECT_EQ(squares_of(svg, "fill-opacity=\"0.53\""), 2u);
}

// Each value has its place: its step's column, its row, and the darkness of its share.
TEST(HeatMap, CellsStandAtTheirStepsAndRows) {
  const double gap = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> values = {{10, 20, 30, 40}, {15, gap, 35, 5}};
  const test::Drawing drawing =
      test::drawing_of(heat_map({.title = "t",
                                 .steps = {100, 200, 300, 400},
                                 .rows = {{"one", values[0]}, {"a longer name", values[1]}},
                                 .light = 5,
                                 .dark = 45,
                                 .style = {.color = 2}}));
  std::vector<test::Drawing::Area> cells = drawing.areas, scale(cells.end() - 7, cells.end());
  cells.resize(cells.size() - 7);
  ASSERT_EQ(cells.size(), 7u);
  const test::Drawing::Text *const first = drawing.text("100"), *const last = drawing.text("400"),
                                   *const step = drawing.text("step"),
                                   *const shown = drawing.text("last");
  ASSERT_TRUE(first != nullptr && last != nullptr && step != nullptr && shown != nullptr);
  EXPECT_NEAR(first->x, drawing.text("a longer name")->right() + 8, 0.1);
  EXPECT_NEAR(step->x, (first->x + last->x) / 2, 0.1);
  EXPECT_NEAR(last->x, 460 - 60, 0.1);
  EXPECT_NEAR(shown->x, last->x + 6, 0.1);
  const double width = (last->x - first->x) / 4;
  size_t at = 0;
  for (size_t row = 0; row < 2; ++row) {
    for (size_t column = 0; column < 4; ++column) {
      const double value = values[row][column];
      if (std::isnan(value)) continue;
      const test::Drawing::Area& cell = cells[at++];
      EXPECT_NEAR(cell.x, first->x + width * static_cast<double>(column), 0.11);
      EXPECT_NEAR(cell.width, width + 0.1, 0.02);
      EXPECT_NEAR(cell.opacity, 0.06 + 0.94 * (value - 5) / 40, 0.006);
      EXPECT_NEAR(cell.y - cells[0].y, static_cast<double>(row) * (cell.height + 2), 0.11);
      const test::Drawing::Text* const name = drawing.text(row == 0 ? "one" : "a longer name");
      EXPECT_TRUE(name->y > cell.y && name->y < cell.y + cell.height);
    }
  }
  // The last values, beside their rows.
  const test::Drawing::Text* const five = drawing.text("5");
  ASSERT_NE(five, nullptr);
  EXPECT_EQ(five->x, shown->x);
  EXPECT_EQ(five->y, drawing.text("a longer name")->y);
  // The legend is in the middle, from light to dark, below everything.
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(scale[i].opacity, 0.06 + 0.94 * static_cast<double>(i) / 6, 0.006);
    EXPECT_NEAR(scale[i].x - scale[0].x, static_cast<double>(i) * scale[i].width, 0.11);
    EXPECT_GT(scale[i].y, step->y);
    EXPECT_LE(scale[i].y + scale[i].height, drawing.height);
  }
  EXPECT_NEAR((scale[0].x + scale[6].x + scale[6].width) / 2, 460.0 / 2, 0.11);
}

TEST(HeatMap, NamesTakeHalfTheWidthAtMostAndOneStepHasOneLabel) {
  const std::string name(60, 'n');
  const test::Drawing drawing = test::drawing_of(heat_map(
      {.title = "t", .steps = {7}, .rows = {{name, {1}}}, .dark = 1, .shows_last = false}));
  EXPECT_NEAR(drawing.areas[0].x, 0.52 * 460, 0.1);
  EXPECT_NEAR(drawing.areas[0].width, 0.48 * 460 + 0.1, 0.02);
  EXPECT_EQ(drawing.text("last"), nullptr);
  size_t labels = 0;
  for (const test::Drawing::Text& text : drawing.texts) labels += text.content == "7" ? 1 : 0;
  EXPECT_EQ(labels, 1u);
}

TEST(HeatMap, IsEmptyWithoutValues) {
  EXPECT_THAT(heat_map({.title = "Harm"}), IsEmpty());
  EXPECT_THAT(heat_map({.title = "Harm", .steps = {1}}), IsEmpty());
}

}  // namespace
}  // namespace binade::train
