#include "binade/formats/tensor_core/tensor_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/base/random.h"
#include "binade/lab/experiments.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

using formats::Format;
using formats::tensor_core::Architecture;
using formats::tensor_core::TensorCore;
namespace spec = formats::spec;

// a[0] x b[0], and `count` times a x b, on top of c.
struct Sum {
  std::string name;
  float c, first_a, first_b;
  int count;
  float a, b;
};

TensorCoreResult::Sum computed(const Sum& sum) {
  std::vector<float> a(16, 0), b(16, 0);
  a[0] = sum.first_a;
  b[0] = sum.first_b;
  std::fill_n(a.begin() + 1, sum.count, sum.a);
  std::fill_n(b.begin() + 1, sum.count, sum.b);
  TensorCoreResult::Sum result{.name = sum.name, .f64 = sum.c};
  float f32 = sum.c;
  for (size_t k = 0; k < a.size(); ++k) {
    result.f64 += double{a[k]} * b[k];
    f32 += a[k] * b[k];
  }
  result.f32 = f32;
  result.ampere = TensorCore({.architecture = Architecture::ampere}).dot(a, b, sum.c);
  result.hopper = TensorCore({}).dot(a, b, sum.c);
  return result;
}

constexpr int64_t side = 16;  // a matmul has 256 results

// Normally distributed e4m3 numbers, or their magnitudes.
std::vector<float> operand(int64_t depth, uint64_t stream, bool positive) {
  std::vector<float> values(static_cast<size_t>(side * depth));
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = random::normal(29, stream, i);
    values[i] =
        formats::decode<spec::e4m3>(formats::encode<spec::e4m3>(positive ? std::abs(x) : x));
  }
  return values;
}

// Errors of matmuls of the same operands, relative to the root mean square of their results.
TensorCoreResult::Errors errors_at(int64_t depth, bool positive) {
  const std::vector<float> a = operand(depth, 1, positive), b = operand(depth, 2, positive);
  std::vector<double> exact(side * side);
  std::vector<float> f32(side * side), result(side * side);
  double square = 0;
  for (int64_t i = 0; i < side * side; ++i) {
    const float* const x = &a[static_cast<size_t>(i / side * depth)];
    const float* const y = &b[static_cast<size_t>(i % side * depth)];
    const auto at = static_cast<size_t>(i);
    for (int64_t k = 0; k < depth; ++k) {
      exact[at] += double{x[k]} * y[k];
      f32[at] += x[k] * y[k];
    }
    square += exact[at] * exact[at];
  }
  const auto error = [&](const std::vector<float>& sums) {
    double sum = 0;
    for (size_t i = 0; i < sums.size(); ++i) sum += (sums[i] - exact[i]) * (sums[i] - exact[i]);
    return std::sqrt(sum / square);
  };
  const auto hopper = [&](const Format& format, int64_t promote_every) {
    TensorCore({.a = &format, .b = &format, .promote_every = promote_every})
        .multiply(
            {.a = a.data(), .b = b.data(), .d = result.data(), .m = side, .n = side, .k = depth});
    return error(result);
  };
  return {.depth = depth,
          .f32 = error(f32),
          .half = hopper(spec::f16, 0),
          .fast = hopper(spec::e4m3, 0),
          .promoted = hopper(spec::e4m3, 128)};
}

void show_sums(const TensorCoreResult& result, ExperimentReport& report) {
  report.add_paragraph(
      "A tensor core adds 8 (Ampere) or 16 (Hopper) products of 16-bit numbers to an f32 number c "
      "at "
      "once. It does not round after each: all summands, c among them, are shifted to the largest "
      "exponent, and what lies below 24 (Ampere) or 25 (Hopper) bits of it is cut off. The sum of "
      "the rest is exact, and is cut to f32 once. These are its sums beside those of a loop in f32 "
      "and of one in f64, which is exact here.");
  std::vector<std::vector<std::string>> rows;
  for (const auto& sum : result.sums) {
    // In units that show the last bits: 2^-23 is the step of f32 above 1.
    const auto text = [](double x) {
      const double rest = (x - 1) * 0x1p23;
      return std::abs(rest) < 64 ? (rest == 0 ? "1" : fmt::format("1 + {:g} x 2^-23", rest))
                                 : fmt::format("{:g}", x);
    };
    rows.push_back({sum.name, text(sum.f64), text(sum.f32), text(sum.ampere), text(sum.hopper)});
  }
  report.add_table({"sum", "exact", "f32 loop", "Ampere", "Hopper"}, rows);
}

void show_errors(const TensorCoreResult& result, ExperimentReport& report) {
  report.add_paragraph(
      "For FP8 operands Hopper adds 32 products at once and keeps 13 bits below the largest "
      "exponent, of the sums as well: c loses its low 10 bits. In a long sum c is the largest, so "
      "each product is cut at 2^-13 of the sum so far. Kernels that promote copy the sum to an f32 "
      "register after every 128 products, add there, and start again from zero. Errors of matmuls "
      "of e4m3 operands with K products per result, relative to the results:");
  const auto percent = [](double x) { return fmt::format("{:.2g}%", 100 * x); };
  std::vector<std::vector<std::string>> rows;
  train::Series fast{"FP8, fast accumulation", {}, train::format_style("e4m3")},
      promoted{"FP8, promoted every 128", {}, train::format_style("bf16")},
      half{"16-bit instructions", {}, train::format_style("f16")},
      f32{"f32 loop", {}, train::format_style("f32")};
  for (const auto& one : result.positive) {
    rows.push_back({fmt::format("positive, K = {}", one.depth), percent(one.f32), percent(one.half),
                    percent(one.promoted), percent(one.fast)});
    const double at = std::log2(static_cast<double>(one.depth));
    f32.points.emplace_back(at, 100 * one.f32);
    half.points.emplace_back(at, 100 * one.half);
    promoted.points.emplace_back(at, 100 * one.promoted);
    fast.points.emplace_back(at, 100 * one.fast);
  }
  const auto& both = result.both_signs;
  rows.push_back({fmt::format("of both signs, K = {}", both.depth), percent(both.f32),
                  percent(both.half), percent(both.promoted), percent(both.fast)});
  report.add_table({"operands", "f32 loop", "16-bit", "FP8, promoted", "FP8, fast"}, rows);
  report.add_figure(
      train::line_chart({"Error of sums of positive products", "log2 of K", "error, percent"},
                        {fast, promoted, half, f32}));
}

}  // namespace

TensorCoreResult tensor_core_experiment(ExperimentReport& report) {
  const Sum sums[] = {
      {"1 + 2 x 2^-24", 1, 0, 0, 2, 1, 0x1p-24f},
      {"1 + 4 x 2^-25", 1, 0, 0, 4, 1, 0x1p-25f},
      {"1 + 8 x 2^-26", 1, 0, 0, 8, 1, 0x1p-26f},
      {"1 + 2^-23 + 2^-24", 1, 1, 0x1p-23f, 1, 1, 0x1p-24f},
      {"2^25 - 2^25 + 1", 0x1p25f, 0x1p13f, -0x1p12f, 1, 1, 1},
      {"2^26 - 2^26 + 1", 0x1p26f, 0x1p13f, -0x1p13f, 1, 1, 1},
  };
  TensorCoreResult result;
  for (const Sum& sum : sums) result.sums.push_back(computed(sum));
  show_sums(result, report);
  for (const int64_t depth : {128, 512, 2048, 8192})
    result.positive.push_back(errors_at(depth, true));
  result.both_signs = errors_at(8192, false);
  show_errors(result, report);
  const auto& longest = result.positive.back();
  report.add_conclusion(fmt::format(
      "a tensor core's sum is neither f32's nor f64's: it is cut, not rounded, and a small summand "
      "beside a large one may vanish, the accumulator's own bits too. Of 16-bit operands the error "
      "stays near f32's. FP8's short accumulator loses {:.0f}% of a sum of {} positive products; "
      "promotion every 128 brings that to {:.2f}%.",
      100 * longest.fast, longest.depth, 100 * longest.promoted));
  return result;
}

}  // namespace binade::lab
