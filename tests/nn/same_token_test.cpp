#include <gtest/gtest.h>

#include <memory>
#include <optional>

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

// An autocast type, or f32 without autocast, and a recipe.
struct Arithmetic {
  const char* name;
  DType dtype;
  const char* recipe = nullptr;
};

// Recipes whose scales are taken from one token's values, from a few of them, or from none.
constexpr Arithmetic arithmetics[] = {
    {"f32", DType::f32},
    {"bf16", DType::bf16},
    {"f16", DType::f16},
    {"row", DType::bf16, "row"},
    {"block", DType::bf16, "block"},
    {"mxfp8", DType::bf16, "mxfp8"},
    {"mxfp4", DType::f16, "mxfp4"},
    {"delayed", DType::bf16, "delayed, history = 2"},
};

class SameToken : public ::testing::TestWithParam<std::tuple<Family, Arithmetic>> {
 protected:
  // The test's arithmetic for a lifetime.
  class Scope {
   public:
    Scope() {
      const Arithmetic& arithmetic = std::get<1>(GetParam());
      if (arithmetic.dtype != DType::f32) cast_.emplace(arithmetic.dtype);
      if (arithmetic.recipe != nullptr) quantized_.emplace(amp::parse_recipe(arithmetic.recipe));
    }

   private:
    std::optional<amp::Autocast> cast_;
    std::optional<amp::QuantizedAutocast> quantized_;
  };

  void SetUp() override {
    tokens_ = randint(0, vocab, {9, context}, {7, 0});
    const Scope scope;
    model_->logits(slice(tokens_, 0, 0, 2));  // gives delayed scales a past
    no_grad_.emplace();
    uint64_t stream = 0;
    // Larger weights than a fresh model's, so that attention is far from uniform.
    for (const Tensor& parameter : model_->parameters())
      add_(parameter, randn(parameter.shape(), {5, stream++}), 0.1);
    whole_ = model_->logits(tokens_);
  }

  // The logits of sequence `row` for its tokens [begin, end).
  Tensor expected(int64_t row, int64_t begin, int64_t end) const {
    return slice(slice(whole_, 0, row, row + 1), 1, begin, end);
  }

  const std::unique_ptr<LanguageModel> model_ =
      std::make_unique<LanguageModel>(std::get<0>(GetParam()).config);
  std::optional<NoGrad> no_grad_;
  Tensor tokens_, whole_;
};

TEST_P(SameToken, InAnyBatch) {
  const Scope scope;
  for (const auto& [begin, end] : {std::pair(0, 1), {8, 9}, {4, 6}, {1, 8}}) {
    const Tensor logits = model_->logits(slice(tokens_, 0, begin, end));
    for (int64_t row = begin; row < end; ++row)
      ASSERT_TRUE(test::same_bits(slice(logits, 0, row - begin, row - begin + 1),
                                  expected(row, 0, context)))
          << "sequence " << row << " of batch " << begin << " to " << end;
  }
}

TEST_P(SameToken, InAPrefixAndOnAnyNumberOfThreads) {
  const Scope scope;
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    for (const int64_t length : {1, 2, 77, 149}) {
      const Tensor prefix = slice(slice(tokens_, 0, 7, 8), 1, 0, length);
      ASSERT_TRUE(test::same_bits(model_->logits(prefix), expected(7, 0, length))) << length;
    }
  }
}

// In chunks of one token that is what generates text.
TEST_P(SameToken, FromACacheInAnyChunks) {
  const Scope scope;
  for (const int64_t chunk : {1, 7, 64, 150}) {
    KeyValueCache cache(context);
    const Tensor sequence = slice(tokens_, 0, 3, 4);
    for (int64_t begin = 0; begin < context; begin += chunk) {
      const int64_t end = std::min(begin + chunk, context);
      const Tensor logits = model_->logits(slice(sequence, 1, begin, end), cache);
      ASSERT_TRUE(test::same_bits(logits, expected(3, begin, end)))
          << "chunks of " << chunk << ", at " << begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameToken,
                         ::testing::Combine(::testing::ValuesIn(families()),
                                            ::testing::ValuesIn(arithmetics)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace binade::nn::same_token_test
