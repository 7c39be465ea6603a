#include "binade/train/streams.h"

#include <gtest/gtest.h>

#include <limits>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "support/thread_count.h"

namespace binade::train {
namespace {

constexpr int64_t vocab = 50, context = 24;

nn::LanguageModelConfig gpt() {
  return nn::GPT(nn::GPTConfig{
                     .layers = 2, .width = 32, .heads = 4, .vocab = vocab, .context = context})
      .config();
}

nn::LanguageModelConfig llama() {
  nn::LanguageModelConfig config = nn::Llama(nn::LlamaConfig{.layers = 2,
                                                             .width = 32,
                                                             .heads = 4,
                                                             .kv_heads = 2,
                                                             .hidden = 60,
                                                             .vocab = vocab,
                                                             .context = context})
                                       .config();
  config.window = 9;
  config.attention_softcap = 4;
  return config;
}

// Prompts of different lengths, two of them longer than half of the context, and texts of different
// lengths, some of which outgrow the context.
std::vector<StreamRequest> requests() {
  std::vector<StreamRequest> all;
  for (int64_t i = 0; i < 11; ++i) {
    StreamRequest request;
    for (int64_t j = 0; j < 1 + i * 5 % 17; ++j) request.prompt.push_back((7 * i + 3 * j) % vocab);
    request.options = {.tokens = i * 11 % 47, .seed = 5, .sample = i, .eos = {11}};
    if (i % 3 == 1) request.options.repetition_penalty = 1.3;
    if (i % 4 == 2) request.options.temperature = 0;
    all.push_back(std::move(request));
  }
  return all;
}

class Streams : public ::testing::TestWithParam<nn::LanguageModelConfig> {
 protected:
  Streams() : model_(GetParam()) {
    const NoGrad no_grad;
    uint64_t stream = 0;
    // Larger than a fresh model's, so that its choices depend on the text.
    for (const Tensor& parameter : model_.parameters())
      add_(parameter, randn(parameter.shape(), {5, stream++}), 0.3);
  }

  // The texts of all requests, `at_once` at a time.
  std::vector<std::vector<int64_t>> texts(int64_t at_once) {
    std::vector<StreamRequest> all = requests();
    std::vector<std::vector<int64_t>> result(all.size());
    size_t started = 0, ended = 0;
    generate_streams(model_, at_once, [&]() -> std::optional<StreamRequest> {
      EXPECT_LT(started - ended, static_cast<size_t>(at_once));
      if (started == all.size()) return {};
      StreamRequest request = all[started];
      std::vector<int64_t>* text = &result[started++];
      request.on_token = [text](const ScoredToken& token) {
        text->push_back(token.id);
        return true;
      };
      request.on_end = [&ended] { ++ended; };
      return request;
    });
    EXPECT_EQ(ended, all.size());
    return result;
  }

  nn::LanguageModel model_;
};

TEST_P(Streams, AreTheTextsOfEachAlone) {
  for (const bool cast : {false, true}) {
    std::optional<amp::Autocast> scope;
    if (cast) scope.emplace(DType::bf16);
    std::vector<std::vector<int64_t>> alone;
    for (const StreamRequest& request : requests())
      alone.push_back(generate(model_, request.prompt, request.options));
    for (const int64_t at_once : {1, 2, 5, 100}) {
      const ThreadCount threads(at_once == 5 ? 3 : 1);
      EXPECT_EQ(texts(at_once), alone) << at_once;
    }
  }
}

TEST_P(Streams, EndWhenTheCallerSaysSo) {
  int64_t tokens = 0, ends = 0, asked = 0;
  generate_streams(model_, 2, [&]() -> std::optional<StreamRequest> {
    if (asked == 3) return {};
    const int64_t last = ++asked;
    return StreamRequest{.prompt = {1, 2},
                         .options = {.tokens = 20},
                         .on_token =
                             [&tokens, last, count = int64_t{0}](const ScoredToken&) mutable {
                               ++tokens;
                               return ++count < last;
                             },
                         .on_end = [&ends] { ++ends; }};
  });
  EXPECT_EQ(tokens, 1 + 2 + 3);
  EXPECT_EQ(ends, 3);
}

INSTANTIATE_TEST_SUITE_P(Models, Streams, ::testing::Values(gpt(), llama()),
                         [](const auto& info) { return info.index == 0 ? "gpt" : "llama"; });

// A text whose logits are NaN, from a position on, ends alone if its caller takes errors.
TEST(StreamErrors, EndTheirOwnText) {
  constexpr int64_t position = 10;
  nn::LanguageModel model(gpt());
  {
    const NoGrad no_grad;
    fill_(slice(model.state_dict().at("positions.weight"), 0, position, context),
          std::numeric_limits<double>::quiet_NaN());
  }
  const auto run = [&model](bool takes_errors) {
    int64_t errors = 0, ends = 0, tokens = 0;
    StreamBatch batch(model, 2);
    for (const int64_t length : {position, position + 3}) {
      StreamRequest request{.prompt = {1}, .options = {.tokens = length}};
      request.on_token = [&tokens](const ScoredToken&) { return ++tokens > 0; };
      request.on_end = [&ends] { ++ends; };
      if (takes_errors) request.on_error = [&errors](const Error&) { ++errors; };
      batch.add(std::move(request));
    }
    while (!batch.empty()) batch.step();
    return std::vector{errors, ends, tokens};
  };
  EXPECT_EQ(run(true), (std::vector<int64_t>{1, 2, 2 * position}));
  EXPECT_THROW(run(false), Error);
}

}  // namespace
}  // namespace binade::train
