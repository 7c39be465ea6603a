#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/sgd.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

using amp::Recipe;

constexpr int64_t rows = 128, in = 256, out = 64, giants = 2;
constexpr double giant = 4e6;

enum class Outliers : uint8_t { none, channels, tokens };

// Activations whose first channels or tokens may be millions of times larger than the rest, as in
// some trained models.
Tensor activations(Outliers outliers) {
  const Tensor x = randn({rows, in}, {13, 1});
  if (outliers == Outliers::channels) fill_(x.strided({rows, giants}, {in, 1}, 0), giant);
  if (outliers == Outliers::tokens) fill_(x.strided({giants, in}, {in, 1}, 0), giant);
  return x;
}

// The SQNR of a matmul in FP8, over all tokens except the giant ones. Weights of giant channels are
// zero: the channels contribute nothing, but they still cost the others precision.
double sqnr(const Recipe& recipe, Outliers outliers) {
  const NoGrad no_grad;
  nn::init::restart(5);
  nn::Linear layer({.in = in, .out = out, .bias = false});
  fill_(layer.weight.strided({out, giants}, {in, 1}, 0), 0);
  const Tensor x = activations(outliers);
  const auto ordinary = [](const Tensor& y) { return slice(y, 0, giants, rows); };
  const Tensor reference = ordinary(linear(x, layer.weight));
  const amp::QuantizedAutocast fp8(recipe);
  const double noise = norm(ordinary(layer(x)) - reference).item();
  return 20 * std::log10(norm(reference).item() / noise);
}

// The fraction of a layer's activations that saturates in each step; they grow tenfold at step 3.
std::vector<double> saturated_fractions() {
  nn::init::restart(5);
  nn::Linear layer({.in = in, .out = out, .bias = false});
  optim::SGD sgd(layer.parameters(), {.lr = 1e-3});
  std::vector<double> fractions;
  for (uint64_t step = 0; step < 6; ++step) {
    const double size = step < 3 ? 1 : 10;
    const Tensor x = randn({rows, in}, {17, step}) * size;
    const amp::QuantizedAutocast fp8(amp::parse_recipe("delayed, history = 4"));
    sgd.zero_grad();
    const Tensor y = layer(x);
    double scale = 1;
    for (const auto& [name, buffer] : layer.named_buffers())
      if (name == "scales.input.scale") scale = buffer.item();
    const auto values = to_vector(abs(x));
    const double limit = formats::spec::e4m3.max() / scale;
    fractions.push_back(static_cast<double>(std::count_if(values.begin(), values.end(),
                                                          [&](double v) { return v > limit; })) /
                        static_cast<double>(values.size()));
    sum(y).backward();
    sgd.step();
  }
  return fractions;
}

}  // namespace

Fp8ScalingResult fp8_scaling_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "A recipe determines which values share a scale and how the scale is found. The same matmul "
      "runs in FP8 with each recipe: on plain activations, with two channels of 4e6 (whose weights "
      "are zero, so that the exact result does not change), and with two tokens of 4e6 (measured "
      "on "
      "the other tokens).");
  const std::pair<const char*, Recipe> recipes[] = {
      {"current, one scale per tensor", amp::recipes::current()},
      {"row, one scale per row", amp::recipes::row()},
      {"block, 1 x 128", amp::recipes::block()},
      {"mx, 1 x 32", amp::recipes::mx()}};
  Fp8ScalingResult result;
  std::vector<std::vector<std::string>> table;
  std::vector<train::Bar> bars;
  for (const auto& [name, recipe] : recipes) {
    result.recipes.push_back({name, sqnr(recipe, Outliers::none), sqnr(recipe, Outliers::channels),
                              sqnr(recipe, Outliers::tokens)});
    const auto& one = result.recipes.back();
    const auto decibels = [](double value) { return fmt::format("{:.1f} dB", value); };
    table.push_back({one.name, decibels(one.plain), decibels(one.channels), decibels(one.tokens)});
    bars.push_back({recipe.name, std::max(one.channels, 0.05), decibels(one.channels),
                    train::format_style("fp8")});
  }
  report.add_table({"recipe", "plain", "giant channels", "giant tokens"}, table);
  report.add_figure(train::bar_chart("Signal-to-noise ratio with giant channels", bars));
  const std::vector<double> fractions = saturated_fractions();
  result.delayed_saturated = fractions[3];
  result.delayed_recovered = fractions[4];
  report.add_paragraph(fmt::format(
      "Delayed scaling takes the scale from past steps, so that a tensor is read only once. When "
      "activations grow tenfold between two steps, {:.0f}% of them saturate in the first step and "
      "{:.1f}% in the next, when the history includes them.",
      100 * result.delayed_saturated, 100 * result.delayed_recovered));
  train::Series series{"saturated activations", {}, train::format_style("fp8-delayed")};
  for (size_t i = 0; i < fractions.size(); ++i)
    series.points.emplace_back(static_cast<double>(i), 100 * fractions[i]);
  report.add_figure(train::line_chart(
      {"Delayed scaling after a tenfold jump at step 3", "step", "% of values saturated"},
      {series}));
  const auto by_plain = [](const auto& x, const auto& y) { return x.plain < y.plain; };
  const auto [worst, best] =
      std::minmax_element(result.recipes.begin(), result.recipes.end(), by_plain);
  report.add_conclusion(fmt::format(
      "on plain data the recipes reach {:.1f} to {:.1f} dB; mx has the least, because its scales "
      "are "
      "powers of two rounded down, so that values between 448 and 512 saturate. An outlier costs "
      "precision in all values that share its scale: a tensor, a row or a group. A "
      "scale per row protects the other tokens, and the smaller the groups, the more of the other "
      "channels survive ({:.1f} dB with groups of 32, {:.1f} dB with 128).",
      worst->plain, best->plain, result.recipes[3].channels, result.recipes[2].channels));
  return result;
}

}  // namespace binade::lab
