#include <fmt/format.h>

#include <cmath>

#include "binade/lab/experiments.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/create.h"
#include "binade/ops/quantize.h"
#include "binade/ops/reduce.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

double relative_error(const Tensor& x, const Quantized& q) {
  return norm(dequantize(q) - x).item() / norm(x).item();
}

Tensor values(double size) { return randn({64, 64}, {3, 1}) * size; }

double unscaled(double size, DType dtype) {
  return relative_error(values(size), quantize(values(size), 1, dtype));
}

double scaled(double size, DType dtype) {
  return relative_error(values(size), quantize(values(size), {.dtype = dtype}));
}

}  // namespace

Fp8RangeResult fp8_range_experiment(ExperimentReport& report) {
  report.say(
      "Normal numbers of every size from 1e-8 to 1e8 go to FP8 and back, as they are and "
      "multiplied by a scale that puts their largest magnitude at the format's largest number. "
      "The error is relative to the values.");
  Fp8RangeResult claims{.e4m3_small = unscaled(1e-4, DType::e4m3),
                        .e4m3_large = unscaled(1e4, DType::e4m3)};
  train::Series raw4{"e4m3", {}}, raw5{"e5m2", {}}, scaled4{"e4m3, scaled", {}},
      scaled5{"e5m2, scaled", {}};
  constexpr double good = 0.1;  // relative error
  for (int power = -26; power <= 26; ++power) {
    const double size = std::ldexp(1.0, power), at = power * std::log10(2.0);
    raw4.points.emplace_back(at, 100 * unscaled(size, DType::e4m3));
    raw5.points.emplace_back(at, 100 * unscaled(size, DType::e5m2));
    scaled4.points.emplace_back(at, 100 * scaled(size, DType::e4m3));
    scaled5.points.emplace_back(at, 100 * scaled(size, DType::e5m2));
    claims.e4m3_binades += raw4.points.back().second < 100 * good;
    claims.e5m2_binades += raw5.points.back().second < 100 * good;
    claims.worst_scaled_e4m3 =
        std::max(claims.worst_scaled_e4m3, scaled4.points.back().second / 100);
    claims.worst_scaled_e5m2 =
        std::max(claims.worst_scaled_e5m2, scaled5.points.back().second / 100);
  }
  const auto percent = [](double share) { return fmt::format("{:.1f}%", 100 * share); };
  report.table({"size of the values", "e4m3", "e4m3, scaled", "e5m2", "e5m2, scaled"}, [&] {
    std::vector<std::vector<std::string>> rows;
    for (const double size : {1e-6, 1e-4, 1e-2, 1., 1e2, 1e4, 1e6})
      rows.push_back({fmt::format("{:g}", size), percent(unscaled(size, DType::e4m3)),
                      percent(scaled(size, DType::e4m3)), percent(unscaled(size, DType::e5m2)),
                      percent(scaled(size, DType::e5m2))});
    return rows;
  }());
  report.figure(train::line_chart(
      {"Error of FP8 by the size of the values", "log10 of their size", "% of the values"},
      {raw4, raw5, scaled4, scaled5}));
  report.proves(fmt::format(
      "as they are, e4m3 holds values well over {:.0f} binades and e5m2 over {:.0f}; outside they "
      "vanish or saturate. With a scale of its own every tensor fits: the error is {:.1f}% and "
      "{:.1f}% at any size. So FP8 data never travels without its scale.",
      claims.e4m3_binades, claims.e5m2_binades, 100 * claims.worst_scaled_e4m3,
      100 * claims.worst_scaled_e5m2));
  return claims;
}

}  // namespace binade::lab
