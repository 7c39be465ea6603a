#include "binade/train/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

constexpr nn::GPTConfig tiny{.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8};

// The definition: one sequence at a time.
double mean_loss(nn::LanguageModel& model, const std::string& text) {
  const NoGrad no_grad;
  double sum = 0;
  int64_t count = 0;
  for (size_t begin = 0; begin + 1 < text.size(); begin += 8) {
    const size_t length = std::min<size_t>(8, text.size() - 1 - begin);
    std::vector<int64_t> in, out;
    for (size_t i = begin; i < begin + length; ++i) {
      in.push_back(static_cast<unsigned char>(text[i]));
      out.push_back(static_cast<unsigned char>(text[i + 1]));
    }
    const Shape shape{1, static_cast<int64_t>(length)};
    const Tensor logits = model.logits(tensor(std::span<const int64_t>(in), shape));
    sum += cross_entropy(logits, tensor(std::span<const int64_t>(out), shape)).item() *
           static_cast<double>(length);
    count += static_cast<int64_t>(length);
  }
  EXPECT_EQ(count, static_cast<int64_t>(text.size()) - 1);
  return sum / static_cast<double>(count);
}

TEST(Evaluate, PredictsEveryTokenOnce) {
  nn::GPT model(tiny);
  for (const size_t size : {2u, 8u, 9u, 10u, 41u, 100u}) {
    const std::string text = small_text().substr(0, size);
    for (const int64_t batch : {1, 3, 64}) {
      const Evaluation result = evaluate(model, data::Tokens::of_bytes(text), batch);
      EXPECT_EQ(result.tokens, static_cast<int64_t>(size) - 1);
      // Losses near log 256; f32 sums of at most 100 of them.
      EXPECT_NEAR(result.loss, mean_loss(model, text), 100 * 0x1p-23 * 6) << size << " " << batch;
    }
  }
  EXPECT_TRUE(model.training());
}

// The loop of transformers' guide to perplexity, with the weights it gives to each window.
double guide_loss(nn::LanguageModel& model, const std::string& text, size_t context,
                  size_t stride) {
  const NoGrad no_grad;
  double sum = 0, weights = 0;
  size_t previous = 0;
  for (size_t begin = 0; previous < text.size(); begin += stride) {
    const size_t end = std::min(begin + context, text.size()), fresh = end - previous;
    std::vector<int64_t> in, out;
    for (size_t i = begin; i + 1 < end; ++i) {
      in.push_back(static_cast<unsigned char>(text[i]));
      out.push_back(i + 1 < previous ? -100 : static_cast<unsigned char>(text[i + 1]));
    }
    if (in.empty()) break;  // a weight of 0
    const Shape shape{1, static_cast<int64_t>(in.size())};
    const Tensor logits = model.logits(tensor(std::span<const int64_t>(in), shape));
    const double mean = cross_entropy(logits, tensor(std::span<const int64_t>(out), shape)).item();
    sum += mean * static_cast<double>(fresh - 1);
    weights += static_cast<double>(fresh - 1);
    previous = end;
  }
  return sum / weights;
}

TEST(Evaluate, SlidingWindowsAreThoseOfTheGuide) {
  nn::GPT model(tiny);
  for (const size_t size : {2u, 8u, 9u, 41u, 100u}) {
    const std::string text = small_text().substr(0, size);
    for (const size_t stride : {2u, 3u, 4u, 8u}) {
      const double expected = guide_loss(model, text, 8, stride);
      for (const int64_t batch : {1, 3, 64}) {
        const Evaluation result = evaluate_windows(model, data::Tokens::of_bytes(text),
                                                   static_cast<int64_t>(stride), batch);
        EXPECT_NEAR(result.loss, expected, 100 * 0x1p-23 * 6) << size << " " << stride;
        if (stride < 8) {
          EXPECT_EQ(result.tokens, static_cast<int64_t>(size) - 1);
        }
      }
    }
  }
  EXPECT_TRUE(model.training());
  const data::Tokens tokens = data::Tokens::of_bytes("abcd");
  EXPECT_THROW(evaluate_windows(model, tokens, 1, 1), Error);
  EXPECT_THROW(evaluate_windows(model, tokens, 9, 1), Error);
}

TEST(Evaluate, TellsTheSameThingInThreeWays) {
  const Evaluation result{.tokens = 10, .loss = std::log(8.0)};
  EXPECT_NEAR(result.perplexity(), 8, 1e-12);
  EXPECT_NEAR(result.bits_per_byte(result.tokens), 3, 1e-12);
}

TEST(Evaluate, LogitsAreThoseOfEachPosition) {
  nn::GPT model(tiny);
  const data::Tokens tokens = data::Tokens::of_bytes(small_text().substr(0, 21));
  const Tensor all = all_logits(model, tokens, 2);
  ASSERT_EQ(all.shape(), (Shape{20, 256}));
  std::vector<int64_t> targets;
  for (int64_t i = 1; i < tokens.size(); ++i) targets.push_back(tokens[i]);
  EXPECT_NEAR(cross_entropy(all, tensor(std::span<const int64_t>(targets), {20})).item(),
              evaluate(model, tokens, 2).loss, 100 * 0x1p-23 * 6);
}

TEST(Evaluate, RefusesTooLittle) {
  nn::GPT model(tiny);
  EXPECT_THROW(evaluate(model, data::Tokens::of_bytes("a"), 1), Error);
  EXPECT_THROW(evaluate(model, data::Tokens::of_bytes("abc"), 0), Error);
}

TEST(EvaluationData, IsTheValidationPartOfTheRunOrAllOfAFile) {
  const testing::TemporaryFolder folder;
  Config config = small_config();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  config.train.steps = 1;
  config.train.warmup = 0;
  const RunResult run = train::run(config, Progress::Mode::quiet);
  const EvaluationData part = evaluation_data(run.checkpoint, "", {.vocab = 256});
  EXPECT_EQ(part.tokens.size(),
            static_cast<int64_t>(0.05 * static_cast<double>(small_text().size())));
  EXPECT_EQ(part.bytes, part.tokens.size() - 1);
  EXPECT_EQ(evaluation_data(run.checkpoint, config.data.source, {.vocab = 256}).tokens.size(),
            static_cast<int64_t>(small_text().size()));
  EXPECT_THAT(
      test::error_of([&] { evaluation_data(folder.path(), config.data.source, {.vocab = 500}); }),
      HasSubstr("token file (.bin) of the 500 ids"));
  EXPECT_THAT(test::error_of([&] { evaluation_data(folder.path(), "", {.vocab = 256}); }),
              HasSubstr("--data"));
}

}  // namespace
}  // namespace binade::train
