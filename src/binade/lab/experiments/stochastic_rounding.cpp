#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/base/random.h"
#include "binade/formats/format.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr float number = 1.001f;  // between the bf16 numbers 1 and 1.0078125
constexpr int draws = 65536;

float rounded(formats::Rounding rounding, uint64_t draw) {
  return formats::decode<formats::spec::bf16>(formats::encode<formats::spec::bf16>(
      number, rounding, formats::Overflow::special, random::bits(23, 1, draw)));
}

}  // namespace

StochasticRoundingResult stochastic_rounding_experiment(ExperimentReport& report) {
  report.add_paragraph(fmt::format(
      "{} lies between two bf16 numbers, 1 and 1.0078125. Rounding to nearest always gives 1. "
      "Stochastic rounding gives 1.0078125 with a probability of {:.1f}%, in proportion to the "
      "distance.",
      number, 100 * (number - 1) / formats::spec::bf16.epsilon()));
  StochasticRoundingResult result{.reference = number};
  train::Series nearest{"to nearest", {}, train::format_style("bf16")},
      stochastic{"stochastic", {}, train::format_style("bf16", 1)},
      reference{"the number", {}, train::format_style("f32")};
  double sum_nearest = 0, sum_stochastic = 0;
  for (int i = 1; i <= draws; ++i) {
    sum_nearest += rounded(formats::Rounding::nearest_even, static_cast<uint64_t>(i));
    sum_stochastic += rounded(formats::Rounding::stochastic, static_cast<uint64_t>(i));
    if ((i & (i - 1)) != 0) continue;
    const double at = std::log2(i);
    nearest.points.emplace_back(at, sum_nearest / i);
    stochastic.points.emplace_back(at, sum_stochastic / i);
    reference.points.emplace_back(at, number);
  }
  result.nearest = sum_nearest / draws;
  result.stochastic = sum_stochastic / draws;
  const double gap = formats::spec::bf16.epsilon(), up = (result.reference - 1) / gap;
  result.bound = 4 * gap * std::sqrt(up * (1 - up) / draws);
  report.add_table({"rounding", "mean of 65536", "error"},
                   {{"to nearest", fmt::format("{:.7f}", result.nearest),
                     fmt::format("{:.1e}", std::abs(result.nearest - result.reference))},
                    {"stochastic", fmt::format("{:.7f}", result.stochastic),
                     fmt::format("{:.1e}", std::abs(result.stochastic - result.reference))}});
  report.add_figure(
      train::line_chart({"Mean of many roundings of 1.001", "log2 of the number of draws", "mean"},
                        {nearest, stochastic, reference}));
  report.add_conclusion(
      "rounding to nearest makes the same error every time. Stochastic rounding makes a larger "
      "error "
      "each time but is right on average: the error of the mean shrinks with the square root of "
      "the "
      "number of draws. This is why it can replace f32 master weights.");
  return result;
}

}  // namespace binade::lab
