#include "binade/train/report/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

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

TEST(HeatMap, IsEmptyWithoutValues) {
  EXPECT_THAT(heat_map({.title = "Harm"}), IsEmpty());
  EXPECT_THAT(heat_map({.title = "Harm", .steps = {1}}), IsEmpty());
}

}  // namespace
}  // namespace binade::train
