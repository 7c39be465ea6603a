#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/lab/experiments.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/create.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/optim/sgd.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// Gradient descent on a quadratic diverges if the rate exceeds 2 / its largest curvature, here
// about 0.45.
constexpr double stable_rate = 0.05, unstable_rate = 0.5;

// A linear model in f32, or under autocast to f16 with a dynamic loss scale.
FallingScaleResult::Run descend(double lr, DType dtype) {
  nn::init::restart(7);
  nn::Linear model({.in = 16, .out = 1});
  optim::SGD sgd(model.parameters(), {.lr = lr});
  const bool casts = dtype == DType::f16;
  amp::GradScaler scaler({.enabled = casts, .init_scale = 0x1p14, .growth_interval = 20});
  const Tensor x = randn({64, 16}, {7, 1}), target = matmul(x, randn({16, 1}, {7, 2}));
  FallingScaleResult::Run run;
  for (int step = 0; step < 60; ++step) {
    sgd.zero_grad();
    Tensor loss;
    {
      const amp::Autocast cast(DType::f16, {.enabled = casts});
      loss = mse_loss(model(x), target);
    }
    run.losses.push_back(loss.item());
    run.scales.push_back(casts ? scaler.get_scale() : 1);
    scaler.scale(loss).backward();
    run.skipped += scaler.step(sgd).applied() ? 0 : 1;
    scaler.update();
  }
  return run;
}

train::Series scale_series(const std::string& name, const FallingScaleResult::Run& run, int dash) {
  train::Series series{name, {}, train::format_style("f16", dash)};
  for (size_t i = 0; i < run.scales.size(); ++i)
    series.points.emplace_back(static_cast<double>(i), std::log2(run.scales[i]));
  return series;
}

}  // namespace

FallingScaleResult falling_scale_experiment(ExperimentReport& report) {
  report.add_paragraph(fmt::format(
      "Two f16 runs of a linear model, with learning rates of {} and {}, both with a dynamic loss "
      "scale that starts at 2^14 and doubles after 20 steps without an overflow. The second run is "
      "repeated in f32.",
      stable_rate, unstable_rate));
  const FallingScaleResult result{.stable = descend(stable_rate, DType::f16),
                                  .unstable = descend(unstable_rate, DType::f16),
                                  .unstable_f32 = descend(unstable_rate, DType::f32)};
  std::vector<std::vector<std::string>> table;
  for (const size_t step : {0, 10, 20, 30, 40, 50, 59}) {
    const auto scale = [step](const FallingScaleResult::Run& run) {
      return fmt::format("2^{:.0f}", std::log2(run.scales[step]));
    };
    const auto loss = [step](const FallingScaleResult::Run& run) {
      return fmt::format("{:.3g}", run.losses[step]);
    };
    table.push_back({fmt::format("{}", step), scale(result.stable), loss(result.stable),
                     scale(result.unstable), loss(result.unstable), loss(result.unstable_f32)});
  }
  report.add_table({"step", "scale, stable", "loss", "scale, unstable", "loss", "loss in f32"},
                   table);
  report.add_figure(train::line_chart({"The loss scale over time", "step", "log2 of the scale"},
                                      {scale_series("learning rate 0.05", result.stable, 0),
                                       scale_series("learning rate 0.5", result.unstable, 1)}));
  report.add_conclusion(fmt::format(
      "in the unstable run the scale falls from 2^14 to 2^{:.0f} in {} skipped steps, since "
      "gradients grow; in the stable run it ends at 2^{:.0f}. The precision is not to blame: f32 "
      "takes the loss from {:.3g} to {:.3g}. 'binade train' writes the scale into metrics.jsonl "
      "and "
      "its report, and its doctor tells divergence from range.",
      std::log2(result.unstable.scales.back()), result.unstable.skipped,
      std::log2(result.stable.scales.back()), result.unstable_f32.losses.front(),
      result.unstable_f32.losses.back()));
  return result;
}

}  // namespace binade::lab
