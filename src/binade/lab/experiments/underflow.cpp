#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

// The fraction of zeros in a gradient of magnitude about `size`, with the loss multiplied by
// `scale`. Each element is rounded to `dtype` once, by itself.
double zero_fraction(double size, DType dtype, double scale) {
  Tensor x = randn({64, 64}, {1, 1}, dtype);
  x.set_requires_grad();
  x.set_grad_dtype(dtype);
  const Tensor loss = sum(cast(x, DType::f32) * randn({64, 64}, {1, 2}));
  mul(loss, size * scale).backward();
  const std::vector<double> values = to_vector(x.grad());
  return static_cast<double>(std::count(values.begin(), values.end(), 0.0)) /
         static_cast<double>(values.size());
}

}  // namespace

UnderflowResult underflow_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "The gradient of y = x w is computed with losses that make it smaller and smaller, in f16, "
      "in "
      "f16 with a scaled loss, and in bf16. How many of its elements are zero?");
  train::Series f16{"f16", {}, train::format_style("f16")},
      bf16{"bf16", {}, train::format_style("bf16")},
      scaled{"f16, loss x 32768", {}, train::format_style("f16", 1)};
  std::vector<std::vector<std::string>> rows;
  const auto percent = [](double fraction) { return fmt::format("{:.1f}%", 100 * fraction); };
  for (double power = -4; power >= -13; power -= 0.5) {
    const double size = std::pow(10, power);
    f16.points.insert(f16.points.begin(), {power, 100 * zero_fraction(size, DType::f16, 1)});
    bf16.points.insert(bf16.points.begin(), {power, 100 * zero_fraction(size, DType::bf16, 1)});
    scaled.points.insert(scaled.points.begin(),
                         {power, 100 * zero_fraction(size, DType::f16, 32768)});
    if (power == std::floor(power))
      rows.push_back({fmt::format("1e{:.0f}", power), percent(f16.points[0].second / 100),
                      percent(scaled.points[0].second / 100),
                      percent(bf16.points[0].second / 100)});
  }
  report.add_table({"gradient size", "zero in f16", "f16, loss x 32768", "zero in bf16"}, rows);
  report.add_figure(train::line_chart(
      {"Gradients that became zero", "log10 of the true magnitude", "% of gradients"},
      {f16, scaled, bf16}));
  const UnderflowResult result{.at_1e9 = zero_fraction(1e-9, DType::f16, 1),
                               .at_1e7 = zero_fraction(1e-7, DType::f16, 1),
                               .at_1e6 = zero_fraction(1e-6, DType::f16, 1),
                               .bf16_at_1e9 = zero_fraction(1e-9, DType::bf16, 1),
                               .scaled_at_1e9 = zero_fraction(1e-9, DType::f16, 32768)};
  report.add_conclusion(fmt::format(
      "at 1e-9, {:.0f}% of f16 gradients are zero and cannot update any weight; bf16 has f32's "
      "exponents and loses none. Multiplying the loss by 2^15 moves gradients up by fifteen "
      "binades: "
      "then {:.1f}% of them are zero.",
      100 * result.at_1e9, 100 * result.scaled_at_1e9));
  return result;
}

}  // namespace binade::lab
