#include <fmt/format.h>

#include <cmath>

#include "binade/base/random.h"
#include "binade/formats/format.h"
#include "binade/lab/experiments.h"
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
  report.say(fmt::format(
      "{} lies between two bf16 numbers, 1 and 1.0078125. Rounding to nearest always gives 1. "
      "Stochastic rounding gives the upper one with a probability of {:.1f}%: the share of the "
      "way.",
      number, 100 * (number - 1) / formats::spec::bf16.epsilon()));
  StochasticRoundingResult claims{.truth = number};
  train::Series nearest{"to nearest", {}}, stochastic{"stochastic", {}}, truth{"the number", {}};
  double sum_nearest = 0, sum_stochastic = 0;
  for (int i = 1; i <= draws; ++i) {
    sum_nearest += rounded(formats::Rounding::nearest_even, static_cast<uint64_t>(i));
    sum_stochastic += rounded(formats::Rounding::stochastic, static_cast<uint64_t>(i));
    if ((i & (i - 1)) != 0) continue;
    const double at = std::log2(i);
    nearest.points.emplace_back(at, sum_nearest / i);
    stochastic.points.emplace_back(at, sum_stochastic / i);
    truth.points.emplace_back(at, number);
  }
  claims.nearest = sum_nearest / draws;
  claims.stochastic = sum_stochastic / draws;
  const double gap = formats::spec::bf16.epsilon(), up = (claims.truth - 1) / gap;
  claims.bound = 4 * gap * std::sqrt(up * (1 - up) / draws);
  report.table({"rounding", "mean of 65536", "off by"},
               {{"to nearest", fmt::format("{:.7f}", claims.nearest),
                 fmt::format("{:.1e}", std::abs(claims.nearest - claims.truth))},
                {"stochastic", fmt::format("{:.7f}", claims.stochastic),
                 fmt::format("{:.1e}", std::abs(claims.stochastic - claims.truth))}});
  report.figure(
      train::line_chart({"Mean of many roundings of 1.001", "log2 of their number", "mean"},
                        {nearest, stochastic, truth}));
  report.proves(
      "rounding to nearest is off by the same amount however often it is done; stochastic rounding "
      "is off each time and right on average, with an error that shrinks like one over the root of "
      "the draws. That is why it can stand in for f32 masters.");
  return claims;
}

}  // namespace binade::lab
