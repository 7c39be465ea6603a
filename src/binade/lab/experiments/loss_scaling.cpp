#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/create.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce.h"
#include "binade/ops/unary.h"
#include "binade/optim/adam.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// Factor of the loss. It makes gradients as small as they become in deep networks.
constexpr double loss_factor = 1e-8;

enum class Scaling : uint8_t { off, on };

// The losses of a small regression in `dtype`.
train::Series train_network(const std::string& name, DType dtype, Scaling scaling) {
  nn::init::restart(3);
  nn::Sequential model{std::make_unique<nn::Linear>(nn::LinearConfig{
                           .in = 16, .out = 32, .activation = Activation::gelu_tanh}),
                       std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 1})};
  optim::Adam adam(model.parameters(), {.lr = 1e-2, .eps = 1e-20});
  amp::GradScaler scaler({.enabled = scaling == Scaling::on, .init_scale = 0x1p24});
  const Tensor x = randn({256, 16}, {5, 1}), target = sum(sin(x), {1}, true);
  const int dash = scaling == Scaling::on ? 1 : 0;
  train::Series losses{name, {}, train::format_style(binade::name(dtype), dash)};
  for (int step = 0; step < 150; ++step) {
    adam.zero_grad();
    Tensor small;
    {
      const amp::Autocast cast(dtype == DType::f32 ? DType::bf16 : dtype,
                               {.enabled = dtype != DType::f32});
      const Tensor loss = mse_loss(model(x), target);
      losses.points.emplace_back(step, loss.item());
      small = mul(loss, loss_factor);
    }
    scaler.scale(small).backward();
    scaler.step(adam);
    scaler.update();
  }
  return losses;
}

// The largest relative error of f16 gradients of a scaled loss, after unscaling.
double gradient_error() {
  const auto gradient = [](DType dtype, double scale) {
    Tensor x = randn({64, 64}, {1, 1}, dtype);
    x.set_requires_grad();
    x.set_grad_dtype(dtype);
    mul(sum(cast(x * randn({64, 64}, {1, 2}, dtype), DType::f32)), 1e-7 * scale).backward();
    return to_vector(x.grad());
  };
  const auto reference = gradient(DType::f32, 1), scaled = gradient(DType::f16, 32768);
  double worst = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    if (std::abs(reference[i]) > 1e-8)
      worst = std::max(worst, std::abs(scaled[i] / 32768 - reference[i]) / std::abs(reference[i]));
  }
  return worst;
}

}  // namespace

LossScalingResult loss_scaling_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "Differentiation is linear: a loss multiplied by S has gradients multiplied by S. "
      "Multiplying "
      "before backward and dividing afterwards changes only which gradients f16 can represent in "
      "between. A small network learns a sum of sines; its loss is multiplied by 1e-8, so that f16 "
      "gradients underflow.");
  const train::Series f32 = train_network("f32", DType::f32, Scaling::off),
                      f16 = train_network("f16", DType::f16, Scaling::off),
                      scaled = train_network("f16, scaled", DType::f16, Scaling::on),
                      bf16 = train_network("bf16", DType::bf16, Scaling::off);
  const auto last = [](const train::Series& series) { return series.points.back().second; };
  const LossScalingResult result{.start = f32.points.front().second,
                                 .f32 = last(f32),
                                 .f16 = last(f16),
                                 .f16_scaled = last(scaled),
                                 .bf16 = last(bf16),
                                 .gradient_error = gradient_error()};
  std::vector<std::vector<std::string>> rows;
  for (const auto& series : {f32, f16, scaled, bf16})
    rows.push_back({series.name, fmt::format("{:.4f}", series.points.front().second),
                    fmt::format("{:.4f}", last(series))});
  report.add_table({"precision", "loss before", "after 150 steps"}, rows);
  report.add_figure(train::line_chart({"The same network in four precisions", "step", "loss"},
                                      {f32, f16, scaled, bf16}));
  report.add_conclusion(fmt::format(
      "without scaling, f16 learns nothing (loss {:.2f}); with scaling, it learns as well as f32 "
      "({:.4f} and {:.4f}). bf16 needs no scaler ({:.4f}). Gradients after unscaling differ from "
      "the "
      "exact ones by at most {:.2f}%, the rounding error of f16.",
      result.f16, result.f16_scaled, result.f32, result.bf16, 100 * result.gradient_error));
  return result;
}

}  // namespace binade::lab
