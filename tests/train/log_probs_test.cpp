#include "binade/train/log_probs.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/autograd/grad_mode.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/loss/log_probs.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/streams.h"
#include "support/error_of.h"
#include "support/values.h"

namespace binade::train {
namespace {

constexpr int64_t scored_vocab = 53, scored_context = 290;

struct ScoredArithmetic {
  const char* name;
  DType dtype;
  const char* recipe = nullptr;
};

// Larger weights than a fresh model's, so that probabilities are far from uniform.
void enlarge(nn::LanguageModel& model) {
  const NoGrad no_grad;
  uint64_t stream = 0;
  for (const Tensor& parameter : model.parameters())
    add_(parameter, randn(parameter.shape(), {5, stream++}), 0.1);
}

class LogProbs : public ::testing::TestWithParam<ScoredArithmetic> {
 protected:
  LogProbs()
      : model_({.layers = 2,
                .width = 48,
                .heads = 6,
                .kv_heads = 2,
                .hidden = 100,
                .vocab = scored_vocab,
                .context = scored_context}) {
    if (GetParam().dtype != DType::f32) cast_.emplace(GetParam().dtype);
    if (GetParam().recipe != nullptr) quantized_.emplace(amp::parse_recipe(GetParam().recipe));
    model_.logits(full({2, 9}, 3, DType::i64));  // gives delayed scales a past
    enlarge(model_);
  }

  nn::Llama model_;
  std::optional<amp::Autocast> cast_;
  std::optional<amp::QuantizedAutocast> quantized_;
};

// A text of the streams: its prompt, and all tokens after the first with what was reported of them.
struct ScoredText {
  std::vector<int64_t> tokens;
  std::vector<ScoredToken> scores;
};

// One prompt is a single token, one is longer than a part of a prompt, one fills the context.
std::vector<ScoredText> scored_texts(nn::LanguageModel& model, int64_t at_once) {
  const int64_t sizes[] = {1, 5, 270, 2, 289, 17};
  std::vector<ScoredText> texts(std::size(sizes));
  size_t started = 0;
  generate_streams(model, at_once, [&]() -> std::optional<StreamRequest> {
    if (started == texts.size()) return {};
    ScoredText& text = texts[started];
    for (int64_t i = 0; i < sizes[started]; ++i)
      text.tokens.push_back((5 * i + static_cast<int64_t>(started)) % scored_vocab);
    StreamRequest request{
        .prompt = text.tokens,
        .options = {.tokens = std::min<int64_t>(7, scored_context - sizes[started]),
                    .temperature = 1.3,
                    .seed = 3,
                    .sample = static_cast<int64_t>(started)},
        .scores = {.generated = true, .prompt = true, .top = 3}};
    request.on_prompt = [&text](std::span<const ScoredToken> tokens) {
      text.scores.insert(text.scores.end(), tokens.begin(), tokens.end());
    };
    request.on_token = [&text](const ScoredToken& token) {
      text.tokens.push_back(token.id);
      text.scores.push_back(token);
      return true;
    };
    ++started;
    return request;
  });
  return texts;
}

TEST_P(LogProbs, AreThoseOfTheTrainingForwardOfTheWholeText) {
  for (const int64_t at_once : {1, 4}) {
    for (const ScoredText& text : scored_texts(model_, at_once)) {
      const auto length = static_cast<int64_t>(text.tokens.size());
      ASSERT_EQ(std::ssize(text.scores), length - 1);
      const Tensor tokens = tensor(text.tokens, {1, length});
      const Tensor logits = model_.logits(slice(tokens, 1, 0, length - 1));
      ASSERT_TRUE(logits.requires_grad());
      const Tensor whole = token_log_probs(logits, slice(tokens, 1, 1, length));
      const std::vector<double> expected = to_vector(whole), all = to_vector(logits);
      for (size_t i = 0; i < expected.size(); ++i) {
        const ScoredToken& token = text.scores[i];
        ASSERT_EQ(token.id, text.tokens[i + 1]);
        ASSERT_EQ(std::bit_cast<uint32_t>(token.log_prob),
                  std::bit_cast<uint32_t>(static_cast<float>(expected[i])))
            << at_once << " at once, token " << i + 1 << " of " << length;
        // By hand, in double.
        const double* row = all.data() + i * scored_vocab;
        double sum = 0;
        for (int64_t j = 0; j < scored_vocab; ++j) sum += std::exp(row[j]);
        ASSERT_NEAR(token.log_prob, row[token.id] - std::log(sum), 4e-6);
        ASSERT_EQ(token.top.size(), 3u);
        for (size_t j = 0; j < 3; ++j) {
          const auto better = std::count_if(row, row + scored_vocab, [&](const double& other) {
            const double own = row[token.top[j].first];
            return other > own || (other == own && &other - row < token.top[j].first);
          });
          ASSERT_EQ(better, static_cast<std::ptrdiff_t>(j));
          if (token.top[j].first == token.id) {
            ASSERT_EQ(token.top[j].second, token.log_prob);
          }
        }
      }
    }
  }
}

TEST_P(LogProbs, AreWhatTheLossIsASumOf) {
  const Tensor tokens = randint(0, scored_vocab, {3, 20}, {7, 0});
  const Tensor targets = randint(0, scored_vocab, {3, 20}, {7, 1});
  const Tensor loss = model_.loss(tokens, targets, {.reduce = Reduce::sum});
  const Tensor each = token_log_probs(model_.logits(tokens), targets);
  EXPECT_EQ(loss.item(), -sum(each).item());
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, LogProbs,
    ::testing::Values(ScoredArithmetic{"f32", DType::f32}, ScoredArithmetic{"bf16", DType::bf16},
                      ScoredArithmetic{"f16", DType::f16},
                      ScoredArithmetic{"row", DType::bf16, "row"},
                      ScoredArithmetic{"block", DType::bf16, "block"},
                      ScoredArithmetic{"delayed", DType::bf16, "delayed, history = 2"}),
    [](const auto& info) { return info.param.name; });

TEST(ScoredTokens, ReportCertaintyAndImpossibility) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor logits = tensor({0, -infinity, 0, -infinity}, {2, 2});
  const int64_t tokens[] = {0, 1};
  const std::vector<ScoredToken> scored = scored_tokens(logits, tokens, 5);
  EXPECT_EQ(std::bit_cast<uint32_t>(scored[0].log_prob), 0u);  // 0, not -0
  EXPECT_EQ(scored[1].log_prob, -infinity);
  EXPECT_EQ(finite(scored[1].log_prob), -9999);
  EXPECT_EQ(scored[1].top.size(), 2u);  // no more than there are
}

TEST(ScoredTokens, OfAPromptPastTheContextAreRefused) {
  nn::GPT model({.layers = 1, .width = 8, .heads = 2, .vocab = 7, .context = 4});
  StreamBatch batch(model, 2);
  EXPECT_EQ(test::error_of([&] {
              batch.add({.prompt = {1, 2, 3, 4, 5}, .scores = {.prompt = true}});
            }),
            "generate: prompt: expected at most 4 tokens to score, found 5");
}

TEST(GeneratedTexts, AreThoseOfEachSampleAlone) {
  nn::GPT model({.layers = 2, .width = 32, .heads = 4, .vocab = scored_vocab, .context = 24});
  enlarge(model);
  const std::vector<std::vector<int64_t>> prompts = {{1, 2, 3}, {9}};
  const GenerateOptions options{.tokens = 8, .seed = 4, .sample = 10, .eos = {11}};
  const std::vector<GeneratedText> texts = generate_texts(model, prompts, 3, options, 4);
  ASSERT_EQ(texts.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    GenerateOptions own = options;
    own.sample += static_cast<int64_t>(i);
    EXPECT_EQ(texts[i].tokens, generate(model, prompts[i / 3], own));
    EXPECT_EQ(texts[i].log_probs.size(), texts[i].tokens.size());
  }
  EXPECT_NE(texts[0].tokens, texts[1].tokens);
}

}  // namespace
}  // namespace binade::train
