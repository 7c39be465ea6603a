#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/ops/attention/attention.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int64_t tokens = 128, dim = 128;

// Queries and keys [1, 1, tokens, dim] with the given standard deviation, drawn independently.
Tensor queries(double deviation) { return randn({1, 1, tokens, dim}, {11, 1}) * deviation; }
Tensor keys(double deviation) { return randn({1, 1, tokens, dim}, {11, 3}) * deviation; }

Tensor scores(double deviation, DType dtype) {
  return matmul(cast(queries(deviation), dtype), transpose(cast(keys(deviation), dtype), 2, 3));
}

// The largest score to expect: each of n = tokens^2 scores is a sum of dim products with a standard
// deviation of sqrt(dim) deviation^2, and the largest of n normal numbers is near sqrt(2 ln n) of
// theirs.
double expected_largest(double deviation) {
  const double n = static_cast<double>(tokens * tokens);
  return std::sqrt(2 * std::log(n) * static_cast<double>(dim)) * deviation * deviation;
}

bool all_finite(const Tensor& x) { return !first_non_finite(x); }

}  // namespace

AttentionOverflowResult attention_overflow_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "Attention scores are dot products of queries and keys, here independent normal numbers in a "
      "head of 128 channels over 128 tokens. The largest score is near deviation^2 sqrt(2 "
      "ln(128^2) "
      "128). The division by sqrt(128) comes after the matmul, too late for f16 if the matmul "
      "writes f16.");
  AttentionOverflowResult result;
  train::Series f32{"f32", {}, train::format_style("f32")},
      f16{"f16 (gap: infinite)", {}, train::format_style("f16")},
      limit{"largest f16", {}, train::format_style("f16", 1)};
  std::vector<std::vector<std::string>> rows;
  for (const double deviation : {1., 2., 4., 8., 16., 24., 32., 36., 40., 48., 64.}) {
    const double exact = max(abs(scores(deviation, DType::f32))).item(),
                 in_f16 = max(abs(scores(deviation, DType::f16))).item(),
                 in_bf16 = max(abs(scores(deviation, DType::bf16))).item();
    if (!std::isfinite(in_f16) && result.overflow_at == 0) result.overflow_at = deviation;
    f32.points.emplace_back(deviation, exact);
    f16.points.emplace_back(deviation, in_f16);
    limit.points.emplace_back(deviation, 65504);
    if (deviation == 1) {
      result.unit_largest = exact;
      result.unit_expected = expected_largest(deviation);
    }
    rows.push_back({fmt::format("{}", deviation),
                    fmt::format("{:.0f}", expected_largest(deviation)),
                    fmt::format("{:.0f}", exact), fmt::format("{:.0f}", in_f16),
                    fmt::format("{:.0f}", in_bf16)});
  }
  report.add_table({"deviation", "estimate", "largest score, f32", "f16", "bf16"}, rows);
  report.add_figure(train::line_chart(
      {"Largest attention score", "deviation of queries and keys", ""}, {f32, f16, limit}));
  const double large = 64;
  const Tensor q = queries(large), k = keys(large), v = randn({1, 1, tokens, dim}, {11, 2});
  result.f16_softmax_nan = !all_finite(softmax(scores(large, DType::f16)));
  result.bf16_finite = all_finite(softmax(scores(large, DType::bf16)));
  const Tensor fused =
      scaled_dot_product_attention(cast(q, DType::f16), cast(k, DType::f16), cast(v, DType::f16));
  result.fused_finite = all_finite(fused);
  const Tensor reference = scaled_dot_product_attention(q, k, v);
  result.fused_error = norm(cast(fused, DType::f32) - reference).item() / norm(reference).item();
  report.add_table({"at deviation 64", "finite"},
                   {{"softmax of f16 scores", result.f16_softmax_nan ? "no: NaN" : "yes"},
                    {"softmax of bf16 scores", result.bf16_finite ? "yes" : "no"},
                    {"fused attention in f16, scores in f32", result.fused_finite ? "yes" : "no"}});
  const double divisor = std::sqrt(static_cast<double>(dim));
  report.add_conclusion(fmt::format(
      "with a deviation of 1, as after a norm, the largest score is {:.0f} (estimate {:.0f}), or "
      "{:.1f} after the division: f16 is in no danger. From deviation {} on f16 scores are "
      "infinite, "
      "and softmax turns them into NaN; bf16 scores stay finite. f16 is safe, too, if the kernel "
      "computes scores in f32, as the fused attention does (error {:.2f}% relative to f32).",
      result.unit_largest, result.unit_expected, result.unit_largest / divisor, result.overflow_at,
      100 * result.fused_error));
  return result;
}

}  // namespace binade::lab
