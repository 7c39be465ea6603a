#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/lab/experiments.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/ops/create.h"
#include "binade/ops/loss.h"
#include "binade/ops/matmul.h"
#include "binade/optim/sgd.h"
#include "binade/train/report/chart.h"

namespace binade::lab {

OverflowRecoveryResult overflow_recovery_experiment(ExperimentReport& report) {
  report.say(
      "A linear model in f16 starts with a loss scale of 2^30, far too high, and a growth interval "
      "of 20 steps. Each step: scale, backward, look for infinities, then update, or skip and "
      "halve the scale.");
  nn::init::restart(7);
  nn::Linear model({.in = 16, .out = 1}, {Device::cpu(), DType::f16});
  optim::SGD sgd(model.parameters(), {.lr = 0.05});
  amp::GradScaler scaler({.init_scale = 0x1p30, .growth_interval = 20});
  const Tensor x = randn({64, 16}, {7, 1}, DType::f16),
               target = matmul(x, randn({16, 1}, {7, 2}, DType::f16));
  OverflowRecoveryResult claims;
  claims.weights_kept = true;
  train::Series scale{"log2 of the loss scale", {}}, losses{"loss", {}};
  for (int step = 0; step < 100; ++step) {
    sgd.zero_grad();
    const Tensor loss = mse_loss(model(x), target);
    if (step == 0) claims.first_loss = loss.item();
    scale.points.emplace_back(step, std::log2(scaler.get_scale()));
    losses.points.emplace_back(step, loss.item());
    scaler.scale(loss).backward();
    const auto before = to_vector(model.weight);
    const amp::StepReport report = scaler.step(sgd);
    if (!report.applied()) {
      ++claims.skipped;
      claims.weights_kept &= to_vector(model.weight) == before;
      if (claims.skips_to_fit == step) ++claims.skips_to_fit;
    }
    scaler.update();
    claims.scales.push_back(scaler.get_scale());
    claims.final_loss = loss.item();
  }
  report.table({"", "value"},
               {{"skips until the scale fits", fmt::format("{}", claims.skips_to_fit)},
                {"skips later, when growth tried again",
                 fmt::format("{}", claims.skipped - claims.skips_to_fit)},
                {"scale at the end", fmt::format("2^{:.0f}", std::log2(claims.scales.back()))},
                {"loss", fmt::format("{:.3f} -> {:.5f}", claims.first_loss, claims.final_loss)}});
  report.figure(train::line_chart(
      {"The scaler finds its place, and keeps probing", "step", "log2 of the scale"}, {scale}));
  report.figure(train::line_chart({"Training stands still while steps are skipped", "step", "loss"},
                                  {losses}));
  report.proves(fmt::format(
      "an overflow costs one step and nothing else: skipped steps left every weight as it was, {} "
      "halvings found the scale, and each later probe that failed was undone at once.",
      claims.skips_to_fit));
  return claims;
}

}  // namespace binade::lab
