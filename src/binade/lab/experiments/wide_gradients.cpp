#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/formats/format.h"
#include "binade/lab/experiments.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int64_t gradient_count = 1024;

// The fractions of a gradient that become zero and infinite in `dtype`. Its components are spread
// evenly over `binades` binades around 1, and the loss is multiplied by 2^power.
WideGradientsResult::Lost lost_components(double binades, int power, DType dtype) {
  Tensor x = zeros({gradient_count}, dtype);
  x.set_requires_grad();
  x.set_grad_dtype(dtype);
  std::vector<double> components;
  for (int64_t i = 0; i < gradient_count; ++i) {
    const double at = static_cast<double>(i) / (gradient_count - 1) - 0.5;
    components.push_back(std::exp2(at * binades));
  }
  const Tensor loss = sum(cast(x, DType::f32) * tensor(components, {gradient_count}));
  mul(loss, std::ldexp(1.0, power)).backward();
  const std::vector<double> gradient = to_vector(x.grad());
  const auto fraction = [&](auto is_lost) {
    return static_cast<double>(std::count_if(gradient.begin(), gradient.end(), is_lost)) /
           static_cast<double>(gradient_count);
  };
  return {power, fraction([](double g) { return g == 0; }),
          fraction([](double g) { return !std::isfinite(g); })};
}

// The scale that loses the fewest components.
WideGradientsResult::Lost best_scale(double binades, DType dtype) {
  WideGradientsResult::Lost best = lost_components(binades, 0, dtype);
  for (int power = -40; power <= 40; ++power) {
    const WideGradientsResult::Lost one = lost_components(binades, power, dtype);
    if (one.total() < best.total()) best = one;
  }
  return best;
}

}  // namespace

WideGradientsResult wide_gradients_experiment(ExperimentReport& report) {
  const formats::Format& f16 = formats::spec::f16;
  WideGradientsResult result{.f16_binades = std::log2(f16.max() / f16.min_subnormal()),
                             .f16_decades = std::log10(f16.max() / f16.min_subnormal())};
  report.add_paragraph(fmt::format(
      "Loss scaling moves all gradients by the same factor. The numbers of f16 span {:.0f} binades "
      "({:.0f} powers of ten, not 24, as is sometimes written). Here a gradient has components of "
      "many magnitudes; all scales from 2^-40 to 2^40 are tried, and the best is kept.",
      result.f16_binades, result.f16_decades));
  const auto percent = [](double fraction) { return fmt::format("{:.1f}%", 100 * fraction); };
  std::vector<std::vector<std::string>> table;
  for (const double binades : {20., 40., 60., 80.}) {
    const WideGradientsResult::Lost narrow = best_scale(binades, DType::f16),
                                    wide = lost_components(binades, 0, DType::bf16);
    result.spans.push_back({binades, narrow, wide});
    table.push_back({fmt::format("{:.0f} binades", binades), fmt::format("2^{}", narrow.power),
                     percent(narrow.zero), percent(narrow.infinite), percent(wide.total())});
  }
  report.add_table(
      {"gradients span", "best scale", "zero in f16", "infinite in f16", "lost in bf16"}, table);
  train::Series zero{"zero", {}, train::format_style("f16")},
      infinite{"infinite", {}, train::format_style("f16", 1)},
      both{"lost, together", {}, train::format_style("f32")};
  for (int power = -40; power <= 40; power += 2) {
    const WideGradientsResult::Lost one = lost_components(60, power, DType::f16);
    zero.points.emplace_back(power, 100 * one.zero);
    infinite.points.emplace_back(power, 100 * one.infinite);
    both.points.emplace_back(power, 100 * one.total());
  }
  report.add_figure(
      train::line_chart({"Components lost in f16, of a gradient that spans 60 binades",
                         "log2 of the scale", "% of the gradient"},
                        {zero, infinite, both}));
  report.add_conclusion(fmt::format(
      "a scale trades zeros for infinities. If gradients span 60 binades, f16 loses at least "
      "{:.0f}% of them at any scale, and a single infinite one makes the scaler skip the step. "
      "bf16 loses none, because it has f32's exponents.",
      100 * result.spans[2].f16.total()));
  return result;
}

}  // namespace binade::lab
