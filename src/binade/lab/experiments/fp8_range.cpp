#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

double relative_error(const Tensor& x, const Quantized& q) {
  return norm(dequantize(q) - x).item() / norm(x).item();
}

Tensor values(double size) { return randn({64, 64}, {3, 1}) * size; }

double unscaled_error(double size, DType dtype) {
  return relative_error(values(size), quantize(values(size), 1, dtype));
}

double scaled_error(double size, DType dtype) {
  return relative_error(values(size), quantize(values(size), {.format = format_of(dtype)}));
}

}  // namespace

Fp8RangeResult fp8_range_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "Normally distributed values of magnitudes from 1e-8 to 1e8 are converted to FP8 and back: "
      "unscaled, and with a scale that maps their largest magnitude to the format's largest "
      "number. "
      "Errors are relative to the values.");
  Fp8RangeResult result{.e4m3_small = unscaled_error(1e-4, DType::e4m3),
                        .e4m3_large = unscaled_error(1e4, DType::e4m3)};
  train::Series raw4{"e4m3", {}, train::format_style("e4m3")},
      raw5{"e5m2", {}, train::format_style("e5m2")},
      scaled4{"e4m3, scaled", {}, train::format_style("e4m3", 1)},
      scaled5{"e5m2, scaled", {}, train::format_style("e5m2", 1)};
  constexpr double accurate = 0.1;  // relative error
  for (int power = -26; power <= 26; ++power) {
    const double size = std::ldexp(1.0, power), at = power * std::log10(2.0);
    raw4.points.emplace_back(at, 100 * unscaled_error(size, DType::e4m3));
    raw5.points.emplace_back(at, 100 * unscaled_error(size, DType::e5m2));
    scaled4.points.emplace_back(at, 100 * scaled_error(size, DType::e4m3));
    scaled5.points.emplace_back(at, 100 * scaled_error(size, DType::e5m2));
    result.e4m3_binades += raw4.points.back().second < 100 * accurate;
    result.e5m2_binades += raw5.points.back().second < 100 * accurate;
    result.worst_scaled_e4m3 =
        std::max(result.worst_scaled_e4m3, scaled4.points.back().second / 100);
    result.worst_scaled_e5m2 =
        std::max(result.worst_scaled_e5m2, scaled5.points.back().second / 100);
  }
  const auto percent = [](double fraction) { return fmt::format("{:.1f}%", 100 * fraction); };
  report.add_table({"magnitude", "e4m3", "e4m3, scaled", "e5m2", "e5m2, scaled"}, [&] {
    std::vector<std::vector<std::string>> rows;
    for (const double size : {1e-6, 1e-4, 1e-2, 1., 1e2, 1e4, 1e6})
      rows.push_back({fmt::format("{:g}", size), percent(unscaled_error(size, DType::e4m3)),
                      percent(scaled_error(size, DType::e4m3)),
                      percent(unscaled_error(size, DType::e5m2)),
                      percent(scaled_error(size, DType::e5m2))});
    return rows;
  }());
  report.add_figure(
      train::line_chart({"Error of FP8 by magnitude", "log10 of the magnitude", "% of the values"},
                        {raw4, raw5, scaled4, scaled5}));
  report.add_conclusion(
      fmt::format("unscaled, e4m3 is accurate over {:.0f} binades and e5m2 over {:.0f}; outside, "
                  "values underflow "
                  "or saturate. With a scale per tensor the error is {:.1f}% and {:.1f}% at any "
                  "magnitude. This "
                  "is why Binade always stores FP8 data with its scale.",
                  result.e4m3_binades, result.e5m2_binades, 100 * result.worst_scaled_e4m3,
                  100 * result.worst_scaled_e5m2));
  return result;
}

}  // namespace binade::lab
