#include <fmt/format.h>

#include <cmath>

#include "binade/amp/grad_scaler.h"
#include "binade/autograd/grad_mode.h"
#include "binade/lab/experiments.h"
#include "binade/lab/experiments/regression.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/optim/adam.h"

namespace binade::lab {
namespace {

constexpr double adam_rate = 2e-5, beta1 = 0.9, beta2 = 0.999, adam_eps = 1e-8;
constexpr int adam_steps = 400;

// Adam as one writes it, every tensor and every operation in f16: no master weights, no f32 inside.
class NaiveAdam {
 public:
  explicit NaiveAdam(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const Tensor& parameter : parameters_) {
      m_.push_back(zeros_like(parameter));
      v_.push_back(zeros_like(parameter));
    }
  }
  void step(double scale) {
    const NoGrad no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor gradient = div(cast(parameters_[i].grad(), DType::f16), scale);
      copy_(m_[i], add(mul(m_[i], beta1), mul(gradient, 1 - beta1)));
      copy_(v_[i], add(mul(v_[i], beta2), mul(square(gradient), 1 - beta2)));
      // eps is a tensor, since a scalar would be added in f32 before the result is rounded.
      const Tensor eps = full_like(v_[i], adam_eps);
      copy_(parameters_[i], sub(parameters_[i], mul(div(m_[i], add(sqrt(v_[i]), eps)), adam_rate)));
    }
  }

 private:
  std::vector<Tensor> parameters_, m_, v_;
};

enum class Weights : uint8_t { f32, master, f16, f16_and_optimizer };

// The losses of a network whose parameters and arithmetic are f16, unless its weights are f32.
std::vector<double> f16_losses(Weights weights) {
  nn::init::restart(3);
  const nn::Placement placement{Device::cpu(), weights == Weights::f32 ? DType::f32 : DType::f16};
  nn::Sequential model{
      std::make_unique<nn::Linear>(
          nn::LinearConfig{.in = 16, .out = 32, .activation = Activation::gelu_tanh}, placement),
      std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 1}, placement)};
  optim::Adam adam(
      model.parameters(),
      {.lr = adam_rate, .eps = adam_eps, .master = {.masters = weights != Weights::f16}});
  NaiveAdam naive(model.parameters());
  amp::GradScaler scaler({.enabled = weights != Weights::f32, .init_scale = 1024});
  const RegressionData data = regression_data();
  const Tensor x = cast(data.x, placement.dtype), target = cast(data.target, placement.dtype);
  std::vector<double> losses;
  for (int step = 0; step < adam_steps; ++step) {
    model.zero_grad();
    const Tensor loss = mse_loss(cast(model(x), DType::f32), cast(target, DType::f32));
    losses.push_back(loss.item());
    if (weights == Weights::f16_and_optimizer) {
      mul(loss, 1024).backward();
      naive.step(1024);
      continue;
    }
    scaler.scale(loss).backward();
    scaler.step(adam);
    scaler.update();
  }
  return losses;
}

}  // namespace

PureF16Result pure_f16_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "\"Mixed\" means that some parts stay in f32. The same network trains for 400 steps by Adam "
      "with less and less of that: f32; f16 with f32 master weights and loss scaling; f16 weights "
      "alone, updated by an optimizer that computes in f32; and f16 everywhere, the optimizer's "
      "moments and arithmetic included.");
  const std::pair<const char*, Weights> kinds[] = {{"f32", Weights::f32},
                                                   {"f16, f32 master weights", Weights::master},
                                                   {"f16 weights, optimizer in f32", Weights::f16},
                                                   {"f16 everywhere", Weights::f16_and_optimizer}};
  PureF16Result result;
  std::vector<std::vector<std::string>> table;
  std::vector<train::Series> curves;
  for (const auto& [name, weights] : kinds) {
    const std::vector<double> losses = f16_losses(weights);
    PureF16Result::Run run{.name = name, .first_loss = losses.front(), .last_loss = losses.back()};
    train::Series series{name, {}, {}};
    for (size_t i = 0; i < losses.size(); ++i) {
      if (!std::isfinite(losses[i]) && run.non_finite_from < 0)
        run.non_finite_from = static_cast<int>(i);
      series.points.emplace_back(static_cast<double>(i), losses[i]);
    }
    table.push_back({name, fmt::format("{:.4f}", run.first_loss),
                     std::isfinite(run.last_loss) ? fmt::format("{:.4f}", run.last_loss) : "NaN",
                     run.non_finite_from < 0 ? "-" : fmt::format("{}", run.non_finite_from)});
    curves.push_back(std::move(series));
    result.runs.push_back(std::move(run));
  }
  report.add_table({"training in", "loss before", "after 400 steps", "non-finite from step"},
                   table);
  report.add_figure(train::line_chart(
      {"One network with less and less f32", "step", "loss", 2 * result.runs[0].first_loss},
      curves));
  const auto progress = [&](size_t i) {
    return result.runs[i].first_loss - result.runs[i].last_loss;
  };
  report.add_conclusion(fmt::format(
      "with master weights f16 lowers the loss by {:.3f}, as f32 does ({:.3f}). Without them it "
      "lowers it by {:.3f}: updates of 2e-5 are below half a unit in the last place of weights "
      "from "
      "0.0625 on, and lost. With the optimizer in f16, too, the loss is non-finite from step {}: "
      "the "
      "squares of small gradients and eps = 1e-8 round to zero, and Adam divides by that.",
      progress(1), progress(0), progress(2), result.runs[3].non_finite_from));
  return result;
}

}  // namespace binade::lab
