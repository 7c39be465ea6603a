#include <fmt/format.h>

#include <cmath>

#include "binade/lab/experiments.h"
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

// Queries and keys [1, 1, tokens, dim] of a deviation; the two are alike, as in a trained head.
Tensor queries(double deviation) { return randn({1, 1, tokens, dim}, {11, 1}) * deviation; }

Tensor scores(double deviation, DType dtype) {
  const Tensor q = cast(queries(deviation), dtype);
  return matmul(q, transpose(q, 2, 3));
}

bool all_finite(const Tensor& x) { return !first_bad(x); }

}  // namespace

AttentionOverflowResult attention_overflow_experiment(ExperimentReport& report) {
  report.say(
      "Attention scores are sums of products of queries and keys. Heads of 128 channels over 128 "
      "tokens, with queries and keys of a growing deviation: the largest score grows with its "
      "square. The division by sqrt(128) comes after the product, too late for f16.");
  AttentionOverflowResult claims;
  train::Series f32{"f32", {}}, f16{"f16 (a gap: infinite)", {}}, limit{"largest f16", {}};
  std::vector<std::vector<std::string>> rows;
  for (const double deviation : {1., 2., 4., 8., 12., 16., 20., 24., 28., 32., 40.}) {
    const double exact = max(abs(scores(deviation, DType::f32))).item(),
                 half = max(abs(scores(deviation, DType::f16))).item(),
                 brain = max(abs(scores(deviation, DType::bf16))).item();
    if (!std::isfinite(half) && claims.overflow_at == 0) claims.overflow_at = deviation;
    f32.points.emplace_back(deviation, exact);
    f16.points.emplace_back(deviation, half);
    limit.points.emplace_back(deviation, 65504);
    rows.push_back({fmt::format("{}", deviation), fmt::format("{:.0f}", exact),
                    fmt::format("{:.0f}", half), fmt::format("{:.0f}", brain)});
  }
  report.table({"deviation", "largest score, f32", "f16", "bf16"}, rows);
  report.figure(train::line_chart({"Largest attention score", "deviation of queries and keys", ""},
                                  {f32, f16, limit}));
  const double large = 40;
  const Tensor q = queries(large), v = randn({1, 1, tokens, dim}, {11, 2});
  claims.f16_softmax_nan = !all_finite(softmax(scores(large, DType::f16)));
  claims.bf16_finite = all_finite(softmax(scores(large, DType::bf16)));
  const Tensor fused =
      scaled_dot_product_attention(cast(q, DType::f16), cast(q, DType::f16), cast(v, DType::f16));
  claims.fused_finite = all_finite(fused);
  const Tensor truth = scaled_dot_product_attention(q, q, v);
  claims.fused_error = norm(cast(fused, DType::f32) - truth).item() / norm(truth).item();
  report.table({"at deviation 40", "finite"},
               {{"softmax of f16 scores", claims.f16_softmax_nan ? "no: NaN" : "yes"},
                {"softmax of bf16 scores", claims.bf16_finite ? "yes" : "no"},
                {"fused attention in f16, scores in f32", claims.fused_finite ? "yes" : "no"}});
  report.proves(fmt::format(
      "scores kept in f16 are infinite from deviation {} on, and the softmax makes NaN of them; "
      "bf16 holds them; and f16 is safe too where the kernel keeps scores in f32, as the fused "
      "attention does (error {:.2f}% of f32).",
      claims.overflow_at, 100 * claims.fused_error));
  return claims;
}

}  // namespace binade::lab
