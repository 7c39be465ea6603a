#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/ops/create/create.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/optim/sgd.h"
#include "binade/train/report/chart.h"

namespace binade::lab {

OverflowRecoveryResult overflow_recovery_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "A linear model in f16 starts with a loss scale of 2^30, which is far too high, and a growth "
      "interval of 20 steps. Each step scales the loss, runs backward and checks the gradients; "
      "then "
      "it updates the weights, or skips the update and halves the scale.");
  nn::init::restart(7);
  nn::Linear model({.in = 16, .out = 1}, {Device::cpu(), DType::f16});
  optim::SGD sgd(model.parameters(), {.lr = 0.05});
  amp::GradScaler scaler({.init_scale = 0x1p30, .growth_interval = 20});
  const Tensor x = randn({64, 16}, {7, 1}, DType::f16),
               target = matmul(x, randn({16, 1}, {7, 2}, DType::f16));
  OverflowRecoveryResult result;
  result.weights_kept = true;
  train::Series scale{"log2 of the loss scale", {}, train::format_style("f16")},
      losses{"loss", {}, train::format_style("f16")};
  for (int step = 0; step < 100; ++step) {
    sgd.zero_grad();
    const Tensor loss = mse_loss(model(x), target);
    if (step == 0) result.first_loss = loss.item();
    scale.points.emplace_back(step, std::log2(scaler.get_scale()));
    losses.points.emplace_back(step, loss.item());
    scaler.scale(loss).backward();
    const auto before = to_vector(model.weight);
    const amp::StepReport step_report = scaler.step(sgd);
    if (!step_report.applied()) {
      ++result.skipped;
      result.weights_kept &= to_vector(model.weight) == before;
      if (result.skips_to_fit == step) ++result.skips_to_fit;
    }
    scaler.update();
    result.scales.push_back(scaler.get_scale());
    result.final_loss = loss.item();
  }
  report.add_table(
      {"", "value"},
      {{"skipped steps until the scale fits", fmt::format("{}", result.skips_to_fit)},
       {"later skipped steps, after the scale grew",
        fmt::format("{}", result.skipped - result.skips_to_fit)},
       {"scale at the end", fmt::format("2^{:.0f}", std::log2(result.scales.back()))},
       {"loss", fmt::format("{:.3f} -> {:.5f}", result.first_loss, result.final_loss)}});
  report.add_figure(
      train::line_chart({"The scale over time", "step", "log2 of the scale"}, {scale}));
  report.add_figure(train::line_chart({"The loss over time", "step", "loss"}, {losses}));
  report.add_conclusion(fmt::format(
      "an overflow costs one step and nothing else. Skipped steps changed no weight, {} halvings "
      "found a working scale, and each later overflow was followed by one halving.",
      result.skips_to_fit));
  return result;
}

}  // namespace binade::lab
