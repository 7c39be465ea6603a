#include "binade/train/log_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/log_probs.h"
#include "binade/ops/shape/shape.h"

namespace binade::train {
namespace {

// Orders NaN below all numbers.
float rank_of(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

// The `count` largest of a row's logits.
std::vector<int64_t> largest_of(std::span<const float> row, int64_t count) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(), [row](int64_t a, int64_t b) {
    const float x = rank_of(row[static_cast<size_t>(a)]), y = rank_of(row[static_cast<size_t>(b)]);
    return x > y || (x == y && a < b);
  });
  return {order.begin(), end};
}

// The log-probabilities of tokens that may all follow one row of logits.
std::vector<double> log_probs_of(const Tensor& row, std::span<const int64_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  return to_vector(
      token_log_probs(expand(row, {count, row.size(1)}), tensor(tokens, Shape{count})));
}

}  // namespace

std::vector<ScoredToken> scored_tokens(const Tensor& logits, std::span<const int64_t> tokens,
                                       int64_t top) {
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t vocab = logits.size(-1);
  const Tensor rows = to(cast(reshape(logits, {count, vocab}), DType::f32), Device::cpu());
  const auto* values = rows.data<float>();
  const std::vector<double> chosen = to_vector(token_log_probs(rows, tensor(tokens, {count})));
  std::vector<ScoredToken> result;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    ScoredToken one{.id = tokens[at], .log_prob = static_cast<float>(chosen[at])};
    if (top > 0) {
      const std::vector<int64_t> best =
          largest_of({values + i * vocab, static_cast<size_t>(vocab)}, top);
      const std::vector<double> of_best = log_probs_of(slice(rows, 0, i, i + 1), best);
      for (size_t j = 0; j < best.size(); ++j)
        one.top.emplace_back(best[j], static_cast<float>(of_best[j]));
    }
    result.push_back(std::move(one));
  }
  return result;
}

double finite(float log_prob) {
  constexpr double least = -9999;
  return std::isfinite(log_prob) ? static_cast<double>(log_prob) : least;
}

}  // namespace binade::train
