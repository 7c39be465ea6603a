#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/lab/experiments/regression.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// Factor of the loss. It makes gradients as small as they become in deep networks.
constexpr double loss_factor = 1e-8;

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
  const struct {
    const char* name;
    train::Style style;
    RegressionRun run;
  } runs[] = {
      {"f32", train::format_style("f32"), train_regression({.loss_factor = loss_factor})},
      {"f16", train::format_style("f16", 0),
       train_regression({.dtype = DType::f16, .loss_factor = loss_factor})},
      {"f16, scaled", train::format_style("f16", 1),
       train_regression(
           {.dtype = DType::f16, .scaler = {.init_scale = 0x1p24}, .loss_factor = loss_factor})},
      {"bf16", train::format_style("bf16"),
       train_regression({.dtype = DType::bf16, .loss_factor = loss_factor})}};
  const LossScalingResult result{.start = runs[0].run.first_loss(),
                                 .f32 = runs[0].run.last_loss(),
                                 .f16 = runs[1].run.last_loss(),
                                 .f16_scaled = runs[2].run.last_loss(),
                                 .bf16 = runs[3].run.last_loss(),
                                 .gradient_error = gradient_error()};
  std::vector<std::vector<std::string>> rows;
  std::vector<train::Series> curves;
  for (const auto& one : runs) {
    rows.push_back({one.name, fmt::format("{:.4f}", one.run.first_loss()),
                    fmt::format("{:.4f}", one.run.last_loss())});
    curves.push_back(one.run.loss_series(one.name, one.style));
  }
  report.add_table({"precision", "loss before", "after 150 steps"}, rows);
  report.add_figure(
      train::line_chart({"The same network in four precisions", "step", "loss"}, curves));
  report.add_conclusion(fmt::format(
      "without scaling, f16 learns nothing (loss {:.2f}); with scaling, it learns as well as f32 "
      "({:.4f} and {:.4f}). bf16 needs no scaler ({:.4f}). Gradients after unscaling differ from "
      "the "
      "exact ones by at most {:.2f}%, the rounding error of f16.",
      result.f16, result.f16_scaled, result.f32, result.bf16, 100 * result.gradient_error));
  return result;
}

}  // namespace binade::lab
