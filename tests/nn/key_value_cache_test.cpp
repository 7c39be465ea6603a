#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/binade.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t vocab = 13, context = 12;

std::unique_ptr<LanguageModel> make(bool llama) {
  if (!llama)
    return std::make_unique<GPT>(
        GPTConfig{.layers = 3, .width = 24, .heads = 3, .vocab = vocab, .context = context});
  return std::make_unique<Llama>(LlamaConfig{.layers = 3,
                                             .width = 24,
                                             .heads = 6,
                                             .kv_heads = 2,
                                             .hidden = 40,
                                             .vocab = vocab,
                                             .context = context});
}

// Larger weights than a fresh model's, so that attention is far from uniform.
void stir(LanguageModel& model) {
  const NoGrad no_grad;
  uint64_t stream = 0;
  for (const Tensor& parameter : model.parameters())
    add_(parameter, randn(parameter.shape(), {5, stream++}), 0.3);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = to_vector(a), y = to_vector(b);
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

class KeyValueCacheOf : public ::testing::TestWithParam<bool> {};

// The same sums in another order: f32 epsilon times the terms of the longest sum (40), for logits
// of a few units.
TEST_P(KeyValueCacheOf, GivesTheLogitsOfTheFullForward) {
  const auto model = make(GetParam());
  stir(*model);
  const Tensor tokens = randint(0, vocab, {2, context}, {7, 0});
  const NoGrad no_grad;
  const Tensor whole = model->logits(tokens);
  double scale = 0;
  for (const double logit : to_vector(whole)) scale = std::max(scale, std::abs(logit));
  ASSERT_GT(scale, 1);
  KeyValueCache cache(context);
  for (const auto& [begin, end] : {std::pair(0, 5), {5, 6}, {6, 7}, {7, 10}, {10, 12}}) {
    const Tensor step = model->logits(slice(tokens, 1, begin, end), cache);
    EXPECT_EQ(cache.length(), end);
    EXPECT_LT(largest_difference(step, slice(whole, 1, begin, end)), 40 * 0x1p-23 * scale);
  }
}

TEST_P(KeyValueCacheOf, HoldsTheAutocastType) {
  const auto model = make(GetParam());
  const Tensor tokens = randint(0, vocab, {1, context}, {7, 0});
  const NoGrad no_grad;
  const amp::Autocast cast(DType::bf16);
  const Tensor whole = model->logits(tokens);
  KeyValueCache cache(context);
  const Tensor first = model->logits(slice(tokens, 1, 0, 8), cache);
  const Tensor rest = model->logits(slice(tokens, 1, 8, context), cache);
  EXPECT_EQ(first.dtype(), whole.dtype());
  // Initial weights: logits well below 1, rounded to bf16 several times.
  EXPECT_LT(largest_difference(rest, slice(whole, 1, 8, context)), 4 * 0x1p-8);
}

TEST_P(KeyValueCacheOf, StartsAgainWhenCleared) {
  const auto model = make(GetParam());
  const Tensor tokens = randint(0, vocab, {1, 4}, {7, 0});
  KeyValueCache cache(8);
  const std::vector<double> once = to_vector(model->logits(tokens, cache));
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(to_vector(model->logits(tokens, cache)), once);
}

TEST_P(KeyValueCacheOf, RefusesMoreThanItHolds) {
  const auto model = make(GetParam());
  const Tensor tokens = randint(0, vocab, {1, 5}, {7, 0});
  KeyValueCache small(7), large(2 * context);
  model->logits(tokens, small);
  EXPECT_THAT([&] { model->logits(tokens, small); },
              ThrowsMessage<Error>(HasSubstr("at most 7 per sequence")));
  EXPECT_EQ(small.length(), 5);
  model->logits(tokens, large);
  model->logits(tokens, large);
  EXPECT_THAT([&] { model->logits(tokens, large); },
              ThrowsMessage<Error>(HasSubstr("at most 12 per sequence")));
}

TEST_P(KeyValueCacheOf, RecordsNoGradient) {
  const auto model = make(GetParam());
  KeyValueCache cache(4);
  EXPECT_FALSE(model->logits(randint(0, vocab, {1, 2}, {7, 0}), cache).requires_grad());
}

INSTANTIATE_TEST_SUITE_P(Families, KeyValueCacheOf, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Llama" : "Gpt2"; });

}  // namespace
}  // namespace binade::nn
