#include "binade/lab/experiments.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/ops/arithmetic.h"
#include "binade/ops/attention.h"
#include "binade/ops/create.h"
#include "binade/ops/matmul.h"
#include "binade/ops/reduce.h"
#include "binade/ops/shape.h"
#include "binade/ops/softmax.h"
#include "binade/ops/unary.h"
#include "binade/train/report/chart.h"

namespace binade::lab {
namespace {

constexpr int64_t tokens = 128, dim = 128;

// Queries [1, 1, tokens, dim] with the given standard deviation. They also serve as keys, because
// queries and keys of a trained head are correlated.
Tensor queries(double deviation) { return randn({1, 1, tokens, dim}, {11, 1}) * deviation; }

Tensor scores(double deviation, DType dtype) {
  const Tensor q = cast(queries(deviation), dtype);
  return matmul(q, transpose(q, 2, 3));
}

bool all_finite(const Tensor& x) { return !first_non_finite(x); }

}  // namespace

AttentionOverflowResult attention_overflow_experiment(ExperimentReport& report) {
  report.add_paragraph(
      "Attention scores are dot products of queries and keys. In a head of 128 channels over 128 "
      "tokens, the largest score grows with the square of their standard deviation. The division "
      "by "
      "sqrt(128) comes after the matmul, too late for f16.");
  AttentionOverflowResult result;
  train::Series f32{"f32", {}, train::format_style("f32")},
      f16{"f16 (gap: infinite)", {}, train::format_style("f16")},
      limit{"largest f16", {}, train::format_style("f16", 1)};
  std::vector<std::vector<std::string>> rows;
  for (const double deviation : {1., 2., 4., 8., 12., 16., 20., 24., 28., 32., 40.}) {
    const double exact = max(abs(scores(deviation, DType::f32))).item(),
                 in_f16 = max(abs(scores(deviation, DType::f16))).item(),
                 in_bf16 = max(abs(scores(deviation, DType::bf16))).item();
    if (!std::isfinite(in_f16) && result.overflow_at == 0) result.overflow_at = deviation;
    f32.points.emplace_back(deviation, exact);
    f16.points.emplace_back(deviation, in_f16);
    limit.points.emplace_back(deviation, 65504);
    rows.push_back({fmt::format("{}", deviation), fmt::format("{:.0f}", exact),
                    fmt::format("{:.0f}", in_f16), fmt::format("{:.0f}", in_bf16)});
  }
  report.add_table({"deviation", "largest score, f32", "f16", "bf16"}, rows);
  report.add_figure(train::line_chart(
      {"Largest attention score", "deviation of queries and keys", ""}, {f32, f16, limit}));
  const double large = 40;
  const Tensor q = queries(large), v = randn({1, 1, tokens, dim}, {11, 2});
  result.f16_softmax_nan = !all_finite(softmax(scores(large, DType::f16)));
  result.bf16_finite = all_finite(softmax(scores(large, DType::bf16)));
  const Tensor fused =
      scaled_dot_product_attention(cast(q, DType::f16), cast(q, DType::f16), cast(v, DType::f16));
  result.fused_finite = all_finite(fused);
  const Tensor reference = scaled_dot_product_attention(q, q, v);
  result.fused_error = norm(cast(fused, DType::f32) - reference).item() / norm(reference).item();
  report.add_table({"at deviation 40", "finite"},
                   {{"softmax of f16 scores", result.f16_softmax_nan ? "no: NaN" : "yes"},
                    {"softmax of bf16 scores", result.bf16_finite ? "yes" : "no"},
                    {"fused attention in f16, scores in f32", result.fused_finite ? "yes" : "no"}});
  report.add_conclusion(
      fmt::format("f16 scores are infinite from deviation {} on, and softmax turns them into NaN; "
                  "bf16 scores stay "
                  "finite. f16 is safe if the kernel computes scores in f32, as the fused "
                  "attention does (error "
                  "{:.2f}% relative to f32).",
                  result.overflow_at, 100 * result.fused_error));
  return result;
}

}  // namespace binade::lab
