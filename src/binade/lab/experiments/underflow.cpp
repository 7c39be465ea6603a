#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/lab/experiments.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/create.h"
#include "binade/ops/reduce.h"
#include "binade/ops/unary.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// The share of zeros in the gradient of a product, whose true size is about `size`, when gradients
// are of a type and the loss is multiplied by `scale`.
double zeros(double size, DType dtype, double scale) {
  Tensor x = randn({64, 64}, {1, 1}, dtype);
  x.set_requires_grad();
  x.set_grad_dtype(dtype);
  const Tensor loss = sum(cast(x * randn({64, 64}, {1, 2}, dtype), DType::f32));
  mul(loss, size * scale).backward();
  const std::vector<double> values = to_vector(x.grad());
  return static_cast<double>(std::count(values.begin(), values.end(), 0.0)) /
         static_cast<double>(values.size());
}

}  // namespace

UnderflowResult underflow_experiment(ExperimentReport& report) {
  report.say(
      "A product y = x w is differentiated with a loss that makes its gradients about as large as "
      "we like. The same gradients, in three types: how many are zero?");
  train::Series f16{"f16", {}}, bf16{"bf16", {}}, scaled{"f16, loss x 32768", {}};
  std::vector<std::vector<std::string>> rows;
  const auto percent = [](double share) { return fmt::format("{:.1f}%", 100 * share); };
  for (double power = -4; power >= -13; power -= 0.5) {
    const double size = std::pow(10, power);
    f16.points.insert(f16.points.begin(), {power, 100 * zeros(size, DType::f16, 1)});
    bf16.points.insert(bf16.points.begin(), {power, 100 * zeros(size, DType::bf16, 1)});
    scaled.points.insert(scaled.points.begin(), {power, 100 * zeros(size, DType::f16, 32768)});
    if (power == std::floor(power))
      rows.push_back({fmt::format("1e{:.0f}", power), percent(f16.points[0].second / 100),
                      percent(scaled.points[0].second / 100),
                      percent(bf16.points[0].second / 100)});
  }
  report.table({"gradient size", "zero in f16", "f16, loss x 32768", "zero in bf16"}, rows);
  report.figure(
      train::line_chart({"Gradients that became zero", "log10 of their true size", "% of them"},
                        {f16, scaled, bf16}));
  const UnderflowResult claims{.at_1e9 = zeros(1e-9, DType::f16, 1),
                               .at_1e7 = zeros(1e-7, DType::f16, 1),
                               .at_1e6 = zeros(1e-6, DType::f16, 1),
                               .bf16_at_1e9 = zeros(1e-9, DType::bf16, 1),
                               .scaled_at_1e9 = zeros(1e-9, DType::f16, 32768)};
  report.proves(fmt::format(
      "at 1e-9 {:.0f}% of f16 gradients are zero and no update can follow from them; bf16, with "
      "f32's exponents, loses none; multiplying the loss by 2^15 moves them fifteen binades up, "
      "where f16 has numbers for them.",
      100 * claims.at_1e9));
  return claims;
}

}  // namespace binade::lab
