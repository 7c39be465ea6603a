#include <gtest/gtest.h>

#include <memory>

#include "binade/binade.h"
#include "support/thread_count.h"
#include "support/values.h"

// On CPUs the logits of a token are a function of its own sequence alone, bit for bit.
namespace binade::nn::same_token_test {
namespace {

constexpr int64_t vocab = 61, context = 150;

// Widths that no kernel's blocks divide, and a hidden size of two K blocks.
LanguageModelConfig sized(LanguageModelConfig config) {
  config.layers = 2;
  config.vocab = vocab;
  config.context = context;
  return config;
}

struct Family {
  const char* name;
  LanguageModelConfig config;
};

std::vector<Family> families() {
  const LanguageModelConfig gpt =
      GPT(GPTConfig{.layers = 1, .width = 52, .heads = 4, .vocab = vocab, .context = context})
          .config();
  const LanguageModelConfig llama = Llama(LlamaConfig{.layers = 1,
                                                      .width = 48,
                                                      .heads = 6,
                                                      .kv_heads = 2,
                                                      .hidden = 700,
                                                      .vocab = vocab,
                                                      .context = context})
                                        .config();
  LanguageModelConfig qwen = llama, mistral = llama, gemma = llama;
  qwen.qkv_bias = true;
  qwen.qk_norm = QueryKeyNorm::per_head;
  qwen.tied_head = false;
  mistral.window = 33;
  gemma.window = 40;
  gemma.layer_types = {LayerAttention::sliding, LayerAttention::full};
  gemma.attention_softcap = 5;
  gemma.logit_softcap = 10;
  return {{"gpt", sized(gpt)},
          {"llama", sized(llama)},
          {"qwen", sized(qwen)},
          {"mistral", sized(mistral)},
          {"gemma", sized(gemma)}};
}

class SameToken : public ::testing::TestWithParam<std::tuple<Family, DType>> {
 protected:
  void SetUp() override {
    const NoGrad no_grad;
    uint64_t stream = 0;
    // Larger weights than a fresh model's, so that attention is far from uniform.
    for (const Tensor& parameter : model_->parameters())
      add_(parameter, randn(parameter.shape(), {5, stream++}), 0.1);
    tokens_ = randint(0, vocab, {33, context}, {7, 0});
    const auto scope = cast();
    whole_ = model_->logits(tokens_);
  }

  // Autocast to the test's type, if that is not f32.
  std::unique_ptr<amp::Autocast> cast() const {
    const DType dtype = std::get<1>(GetParam());
    return dtype == DType::f32 ? nullptr : std::make_unique<amp::Autocast>(dtype);
  }

  // The logits of sequence `row` for its tokens [begin, end).
  Tensor expected(int64_t row, int64_t begin, int64_t end) const {
    return slice(slice(whole_, 0, row, row + 1), 1, begin, end);
  }

  const std::unique_ptr<LanguageModel> model_ =
      std::make_unique<LanguageModel>(std::get<0>(GetParam()).config);
  const NoGrad no_grad_;
  Tensor tokens_, whole_;
};

TEST_P(SameToken, InAnyBatch) {
  const auto scope = cast();
  for (const auto& [begin, end] : {std::pair(0, 1), {32, 33}, {4, 6}, {3, 20}}) {
    const Tensor logits = model_->logits(slice(tokens_, 0, begin, end));
    for (int64_t row = begin; row < end; ++row)
      ASSERT_TRUE(test::same_bits(slice(logits, 0, row - begin, row - begin + 1),
                                  expected(row, 0, context)))
          << "sequence " << row << " of batch " << begin << " to " << end;
  }
}

TEST_P(SameToken, InAPrefixAndOnAnyNumberOfThreads) {
  const auto scope = cast();
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    for (const int64_t length : {1, 2, 77, 149}) {
      const Tensor prefix = slice(slice(tokens_, 0, 17, 18), 1, 0, length);
      ASSERT_TRUE(test::same_bits(model_->logits(prefix), expected(17, 0, length))) << length;
    }
  }
}

// In chunks of one token that is what generates text.
TEST_P(SameToken, FromACacheInAnyChunks) {
  const auto scope = cast();
  for (const int64_t chunk : {1, 7, 64, 150}) {
    KeyValueCache cache(context);
    const Tensor sequence = slice(tokens_, 0, 9, 10);
    for (int64_t begin = 0; begin < context; begin += chunk) {
      const int64_t end = std::min(begin + chunk, context);
      const Tensor logits = model_->logits(slice(sequence, 1, begin, end), cache);
      ASSERT_TRUE(test::same_bits(logits, expected(9, begin, end)))
          << "chunks of " << chunk << ", at " << begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameToken,
                         ::testing::Combine(::testing::ValuesIn(families()),
                                            ::testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::string(name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace binade::nn::same_token_test
