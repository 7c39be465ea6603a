#include "binade/lab/experiments/regression.h"

#include <algorithm>

#include "binade/amp/autocast.h"
#include "binade/nn/init.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/optim/adam.h"

namespace binade::lab {
namespace {

double zero_fraction_of_gradients(const nn::Module& model) {
  int64_t zeros = 0, count = 0;
  for (const Tensor& parameter : model.parameters()) {
    const std::vector<double> values = to_vector(parameter.grad());
    zeros += std::count(values.begin(), values.end(), 0.0);
    count += std::ssize(values);
  }
  return static_cast<double>(zeros) / static_cast<double>(count);
}

}  // namespace

RegressionData regression_data() {
  const Tensor x = randn({256, 16}, {5, 1});
  return {x, sum(sin(x), {1}, true)};
}

train::Series RegressionRun::loss_series(const std::string& name, train::Style style) const {
  train::Series series{name, {}, style};
  for (size_t i = 0; i < losses.size(); ++i)
    series.points.emplace_back(static_cast<double>(i), losses[i]);
  return series;
}

RegressionRun train_regression(const Regression& options) {
  nn::init::restart(3);
  nn::Sequential model{std::make_unique<nn::Linear>(nn::LinearConfig{
                           .in = 16, .out = 32, .activation = Activation::gelu_tanh}),
                       std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 1})};
  optim::Adam adam(model.parameters(), {.lr = options.lr, .eps = options.eps});
  amp::GradScaler scaler(options.scaler);
  const RegressionData data = regression_data();
  const bool casts = options.dtype != DType::f32;
  RegressionRun run;
  for (int step = 0; step < options.steps; ++step) {
    adam.zero_grad();
    Tensor small;
    {
      const amp::Autocast cast(casts ? options.dtype : DType::bf16, {.enabled = casts});
      const Tensor loss = mse_loss(model(data.x), data.target);
      run.losses.push_back(loss.item());
      small = mul(loss, options.loss_factor);
    }
    run.scales.push_back(options.scaler.enabled ? scaler.get_scale() : 1);
    scaler.scale(small).backward();
    if (step == 0) run.zero_gradients = zero_fraction_of_gradients(model);
    run.skipped += scaler.step(adam).applied() ? 0 : 1;
    scaler.update();
  }
  return run;
}

}  // namespace binade::lab
