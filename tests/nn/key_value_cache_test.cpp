#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/backend/gpu.h"
#include "binade/backend/graph.h"
#include "binade/backend/transfer.h"
#include "binade/binade.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;

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

TEST_P(KeyValueCacheOf, GivesTheLogitsOfTheFullForward) {
  const auto model = make(GetParam());
  stir(*model);
  const Tensor tokens = randint(0, vocab, {2, context}, {7, 0});
  const NoGrad no_grad;
  const Tensor whole = model->logits(tokens);
  KeyValueCache cache(context);
  for (const auto& [begin, end] : {std::pair(0, 5), {5, 6}, {6, 7}, {7, 10}, {10, 12}}) {
    const Tensor step = model->logits(slice(tokens, 1, begin, end), cache);
    EXPECT_EQ(cache.length(), end);
    EXPECT_EQ(to_vector(step), to_vector(slice(whole, 1, begin, end)));
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
  EXPECT_THAT(test::error_of([&] { model->logits(tokens, small); }),
              HasSubstr("at most 7 per sequence"));
  EXPECT_EQ(small.length(), 5);
  model->logits(tokens, large);
  model->logits(tokens, large);
  EXPECT_THAT(test::error_of([&] { model->logits(tokens, large); }),
              HasSubstr("at most 12 per sequence"));
}

TEST_P(KeyValueCacheOf, RecordsNoGradient) {
  const auto model = make(GetParam());
  KeyValueCache cache(4);
  EXPECT_FALSE(model->logits(randint(0, vocab, {1, 2}, {7, 0}), cache).requires_grad());
}

Tensor position_of(const KeyValueCache& cache, Device device = Device::cpu()) {
  return tensor(std::vector<int64_t>{cache.length()}, {1}, device);
}

TEST_P(KeyValueCacheOf, NextLogitsAreThoseOfOneToken) {
  const auto model = make(GetParam());
  stir(*model);
  const Tensor tokens = randint(0, vocab, {2, context}, {7, 0});
  KeyValueCache expected(context), cache(context);
  model->logits(slice(tokens, 1, 0, 4), expected);
  model->logits(slice(tokens, 1, 0, 4), cache);
  for (int64_t i = 4; i < context; ++i) {
    const Tensor token = slice(tokens, 1, i, i + 1);
    const Tensor logits = model->next_logits(token, position_of(cache), cache);
    EXPECT_EQ(cache.length(), i);
    cache.advance();
    EXPECT_EQ(to_vector(logits), to_vector(model->logits(token, expected)));
  }
  EXPECT_THAT(test::error_of(
                  [&] { model->next_logits(slice(tokens, 1, 0, 1), position_of(cache), cache); }),
              HasSubstr("at most 12 per sequence"));
  EXPECT_THAT(test::error_of(
                  [&] { model->next_logits(slice(tokens, 1, 0, 2), position_of(cache), cache); }),
              HasSubstr("[batch, 1]"));
}

class NextLogitsGpu : public ::testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

// Long enough that the cache does not fit into one chunk of the kernel; replays of one capture at
// every position but the first two. The tolerance is that of sums in another order (f32) and of
// several roundings to bf16.
TEST_P(NextLogitsGpu, ReplaysFollowTheCpu) {
  const auto [llama, dtype] = GetParam();
  constexpr int64_t long_context = 2100, prompt = 2080;
  const auto make_long = [llama = llama](Device device) -> std::unique_ptr<LanguageModel> {
    if (!llama)
      return std::make_unique<GPT>(
          GPTConfig{.layers = 2, .width = 96, .heads = 4, .vocab = vocab, .context = long_context},
          device);
    return std::make_unique<Llama>(LlamaConfig{.layers = 2,
                                               .width = 128,
                                               .heads = 4,
                                               .kv_heads = 2,
                                               .hidden = 64,
                                               .vocab = vocab,
                                               .context = long_context},
                                   device);
  };
  const auto host = make_long(Device::cpu()), gpu = make_long(Device::cuda());
  stir(*host);
  gpu->load_state_dict(host->state_dict());
  const Tensor tokens = randint(0, vocab, {2, long_context}, {7, 0});
  const amp::Autocast cast(dtype == DType::f32 ? DType::bf16 : dtype,
                           {.enabled = dtype != DType::f32});
  KeyValueCache expected(long_context), cache(long_context);
  host->logits(slice(tokens, 1, 0, prompt), expected);
  gpu->logits(to(contiguous(slice(tokens, 1, 0, prompt)), Device::cuda()), cache);
  const Tensor token = to(contiguous(slice(tokens, 1, 0, 1)), Device::cuda()),
               position = position_of(cache, Device::cuda());
  backend::Graph graph;
  Tensor logits;
  const auto next = [&] { logits = gpu->next_logits(token, position, cache); };
  const double tolerance = dtype == DType::f32 ? 1e-4 : 0.05;
  for (int64_t i = prompt; i < long_context; ++i) {
    const Tensor one = contiguous(slice(tokens, 1, i, i + 1));
    backend::transfer(one, token);
    backend::transfer(position_of(cache), position);
    if (i == prompt + 2) graph.capture(Device::cuda(), next);
    graph.captured() ? graph.replay() : next();
    cache.advance();
    const Tensor reference = host->logits(one, expected);
    double scale = 1;
    for (const double logit : to_vector(reference)) scale = std::max(scale, std::abs(logit));
    EXPECT_LT(largest_difference(logits, reference), tolerance * scale) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, NextLogitsGpu,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(DType::f32, DType::bf16)));

INSTANTIATE_TEST_SUITE_P(Families, KeyValueCacheOf, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Llama" : "Gpt2"; });

}  // namespace
}  // namespace binade::nn
