#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/lab/experiments.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/create.h"
#include "binade/ops/loss.h"
#include "binade/ops/reduce.h"
#include "binade/ops/unary.h"
#include "binade/optim/adam.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// A regression whose loss is multiplied by 1e-8, as deep networks do it by their depth.
constexpr double smallness = 1e-8;

train::Series trained(const std::string& name, DType dtype, bool scaling) {
  nn::init::restart(3);
  nn::Sequential model{std::make_unique<nn::Linear>(nn::LinearConfig{
                           .in = 16, .out = 32, .activation = Activation::gelu_tanh}),
                       std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 1})};
  optim::Adam adam(model.parameters(), {.lr = 1e-2, .eps = 1e-20});
  amp::GradScaler scaler({.enabled = scaling, .init_scale = 0x1p24});
  const Tensor x = randn({256, 16}, {5, 1}), target = sum(sin(x), {1}, true);
  train::Series losses{name, {}};
  for (int step = 0; step < 150; ++step) {
    adam.zero_grad();
    Tensor small;
    {
      const amp::Autocast cast(dtype == DType::f32 ? DType::bf16 : dtype,
                               {.enabled = dtype != DType::f32});
      const Tensor loss = mse_loss(model(x), target);
      losses.points.emplace_back(step, loss.item());
      small = mul(loss, smallness);
    }
    scaler.scale(small).backward();
    scaler.step(adam);
    scaler.update();
  }
  return losses;
}

// Gradients in f16 with a scaled loss, unscaled again, against those of f32.
double gradient_error() {
  const auto gradient = [](DType dtype, double scale) {
    Tensor x = randn({64, 64}, {1, 1}, dtype);
    x.set_requires_grad();
    x.set_grad_dtype(dtype);
    mul(sum(cast(x * randn({64, 64}, {1, 2}, dtype), DType::f32)), 1e-7 * scale).backward();
    return to_vector(x.grad());
  };
  const auto truth = gradient(DType::f32, 1), scaled = gradient(DType::f16, 32768);
  double worst = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (std::abs(truth[i]) > 1e-8)
      worst = std::max(worst, std::abs(scaled[i] / 32768 - truth[i]) / std::abs(truth[i]));
  }
  return worst;
}

}  // namespace

LossScalingResult loss_scaling_experiment(ExperimentReport& report) {
  report.say(
      "Differentiation is linear: a loss multiplied by S has gradients multiplied by S. Scale up "
      "before the backward, divide after it, and only what f16 can hold on the way has changed. A "
      "small network learns the sum of sines; its loss is multiplied by 1e-8, so that f16 "
      "gradients underflow.");
  const train::Series f32 = trained("f32", DType::f32, false),
                      f16 = trained("f16", DType::f16, false),
                      scaled = trained("f16, scaled", DType::f16, true),
                      bf16 = trained("bf16", DType::bf16, false);
  const auto last = [](const train::Series& series) { return series.points.back().second; };
  const LossScalingResult claims{.start = f32.points.front().second,
                                 .f32 = last(f32),
                                 .f16 = last(f16),
                                 .f16_scaled = last(scaled),
                                 .bf16 = last(bf16),
                                 .gradient_error = gradient_error()};
  std::vector<std::vector<std::string>> rows;
  for (const auto& series : {f32, f16, scaled, bf16})
    rows.push_back({series.name, fmt::format("{:.4f}", series.points.front().second),
                    fmt::format("{:.4f}", last(series))});
  report.table({"precision", "loss before", "after 150 steps"}, rows);
  report.figure(train::line_chart({"The same network in four precisions", "step", "loss"},
                                  {f32, f16, scaled, bf16}));
  report.proves(fmt::format(
      "without scaling f16 learns nothing here (loss {:.2f}), with it the same as f32 ({:.4f} and "
      "{:.4f}); bf16 needs no scaler ({:.4f}). Unscaled gradients differ from the true ones by at "
      "most {:.2f}%, the rounding of f16 itself.",
      claims.f16, claims.f16_scaled, claims.f32, claims.bf16, 100 * claims.gradient_error));
  return claims;
}

}  // namespace binade::lab
