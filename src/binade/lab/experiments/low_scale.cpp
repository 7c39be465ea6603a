#include <fmt/format.h>

#include <cmath>

#include "binade/lab/experiments.h"
#include "binade/lab/experiments/regression.h"

namespace binade::lab {
namespace {

// A scale that neither grows nor shrinks.
amp::GradScalerOptions fixed_scale(double scale) {
  return {.init_scale = scale, .growth_interval = int64_t{1} << 40};
}

}  // namespace

LowScaleResult low_scale_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "The network of the experiment loss-scaling, whose loss is multiplied by 1e-8, trains in f16 "
      "with fixed loss scales. Too high a scale overflows, which the scaler sees. What does it see "
      "of a scale that is too low?");
  LowScaleResult result;
  std::vector<std::vector<std::string>> table;
  std::vector<train::Series> curves;
  for (const int power : {24, 16, 8, 4, 0}) {
    const RegressionRun run = train_regression(
        {.dtype = DType::f16, .scaler = fixed_scale(std::ldexp(1.0, power)), .loss_factor = 1e-8});
    result.runs.push_back(
        {power, run.zero_gradients, run.first_loss(), run.last_loss(), run.skipped});
    const std::string name = fmt::format("2^{}", power);
    table.push_back({name, fmt::format("{:.1f}%", 100 * run.zero_gradients),
                     fmt::format("{}", run.skipped), fmt::format("{:.4f}", run.first_loss()),
                     fmt::format("{:.4f}", run.last_loss())});
    curves.push_back(run.loss_series(name, {}));
  }
  report.add_table({"scale", "zero gradients", "skipped steps", "loss before", "after 150 steps"},
                   table);
  report.add_figure(train::line_chart({"The loss by scale", "step", "loss"}, curves));
  report.add_conclusion(fmt::format(
      "at 2^0, {:.0f}% of the gradients are zero and the loss stays at {:.2f}, yet no step is "
      "skipped and every number is finite: nothing reports it. The fraction of zero gradients "
      "does. 'binade train' measures that fraction and names the layers (verdict: underflow).",
      100 * result.runs.back().zero_gradients, result.runs.back().last_loss));
  return result;
}

}  // namespace binade::lab
