#include "binade/train/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

TEST(Generate, ZeroTemperatureTakesTheLikeliest) {
  EXPECT_EQ(choose({0.1, 3, 2.9, -1}, {.temperature = 0}, 0.999), 1);
}

TEST(Generate, TopKLeavesTheRestOut) {
  for (int i = 0; i < 100; ++i) {
    const int64_t token = choose({5, 4, 3, 2}, {.temperature = 100, .top_k = 2}, i / 100.0);
    EXPECT_LT(token, 2);
  }
  EXPECT_EQ(choose({5, 4, 3, 2}, {.temperature = 100, .top_k = 0}, 0.9999), 3);
}

// softmax(log 1, log 2, log 5): probabilities 1/8, 2/8, 5/8, the most likely first.
TEST(Generate, DrawsByProbability) {
  const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(5.0)};
  std::map<int64_t, int> counts;
  for (int i = 0; i < 800; ++i)
    ++counts[choose(logits, {.temperature = 1, .top_k = 0}, (i + 0.5) / 800)];
  EXPECT_EQ(counts[2], 500);
  EXPECT_EQ(counts[1], 200);
  EXPECT_EQ(counts[0], 100);
}

// Probabilities 5/8, 2/8, 1/8: the first alone reaches 0.6, two reach 0.7.
TEST(Generate, TopPKeepsTheLikeliestThatReachIt) {
  const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(5.0)};
  const auto kept = [&logits](double top_p) {
    std::map<int64_t, int> counts;
    for (int i = 0; i < 700; ++i)
      ++counts[choose(logits, {.temperature = 1, .top_k = 0, .top_p = top_p}, (i + 0.5) / 700)];
    return counts;
  };
  EXPECT_EQ(kept(0.6), (std::map<int64_t, int>{{2, 700}}));
  EXPECT_EQ(kept(0.7), (std::map<int64_t, int>{{2, 500}, {1, 200}}));
  EXPECT_EQ(kept(1).size(), 3u);
}

// Generation with the cache gives the tokens of full forward passes.
TEST(Generate, TheCacheChangesNoToken) {
  nn::Llama model({.layers = 2,
                   .width = 16,
                   .heads = 4,
                   .kv_heads = 2,
                   .hidden = 32,
                   .vocab = 256,
                   .context = 16});
  std::vector<int64_t> text = {72, 101, 108};
  const std::vector<int64_t> made = generate(model, text, {.tokens = 13, .temperature = 0});
  const NoGrad no_grad;
  for (const int64_t token : made) {
    const auto length = static_cast<int64_t>(text.size());
    const Tensor logits = model.logits(tensor(std::span<const int64_t>(text), {1, length}));
    EXPECT_EQ(choose(to_vector(slice(logits, 1, length - 1, length)), {.temperature = 0}, 0),
              token);
    text.push_back(token);
  }
}

// Past the context the last half is fed again: token 9 of a context of 8 follows the last 4.
TEST(Generate, AFullContextGoesOnFromItsLastHalf) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  const std::vector<int64_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<int64_t> made = generate(model, prompt, {.tokens = 2, .temperature = 0});
  const std::vector<int64_t> half = {6, 7, 8, made[0]};
  EXPECT_EQ(generate(model, half, {.tokens = 1, .temperature = 0})[0], made[1]);
  const std::vector<int64_t> longer = {9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(generate(model, longer, {.tokens = 2, .temperature = 0}), made);
}

TEST(Generate, IsAFunctionOfTheSeed) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  const auto made = [&model](uint64_t seed) {
    return generate(model, {65}, {.tokens = 20, .temperature = 1, .top_k = 0, .seed = seed});
  };
  EXPECT_EQ(made(1).size(), 20u);  // past the context
  EXPECT_EQ(made(1), made(1));
  EXPECT_NE(made(1), made(2));
  EXPECT_TRUE(model.training());
}

// transformers' RepetitionPenaltyLogitsProcessor: each token once, however often it occurred.
TEST(Generate, RepetitionIsPenalizedTowardsUnlikely) {
  std::vector<double> logits = {2, -2, 4, 0, 1};
  const std::vector<int64_t> text = {0, 1, 1, 3, 0};
  penalize_repetition(logits, text, 2);
  EXPECT_EQ(logits, (std::vector<double>{1, -4, 4, 0, 1}));
}

TEST(Generate, APenaltyKeepsTokensFromComingBack) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  const std::vector<int64_t> plain = generate(model, {65}, {.tokens = 30, .temperature = 0});
  const std::vector<int64_t> varied =
      generate(model, {65}, {.tokens = 30, .temperature = 0, .repetition_penalty = 1e6});
  EXPECT_LT(std::set(plain.begin(), plain.end()).size(), 30u);
  EXPECT_EQ(std::set(varied.begin(), varied.end()).size(), 30u);
}

TEST(Generate, EndsWithAnEosOrWhenAsked) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  const GenerateOptions options{.tokens = 20, .temperature = 1, .top_k = 0};
  const std::vector<int64_t> all = generate(model, {65}, options);
  GenerateOptions ended = options;
  ended.eos = {all[7], all[4]};
  const auto first = std::min(std::ranges::find(all, all[4]), std::ranges::find(all, all[7]));
  EXPECT_EQ(generate(model, {65}, ended), std::vector(all.begin(), first + 1));
  int calls = 0;
  EXPECT_EQ(generate(model, {65}, options, [&](int64_t) { return ++calls < 3; }),
            std::vector(all.begin(), all.begin() + 3));
}

TEST(Generate, RefusesOptionsThatMeanNothing) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  const auto refusal = [&model](const GenerateOptions& options) {
    return test::error_of([&] { generate(model, {65}, options); });
  };
  EXPECT_THAT(refusal({.tokens = -1}), HasSubstr("generate: tokens: expected from 0 to "));
  EXPECT_THAT(refusal({.tokens = int64_t{1} << 40}), HasSubstr("generate: tokens: expected "));
  EXPECT_EQ(refusal({.tokens = 0}), "");
  EXPECT_THAT(refusal({.tokens = 1, .temperature = -0.1}), HasSubstr("generate: temperature: "));
  EXPECT_THAT(refusal({.tokens = 1, .top_k = -1}), HasSubstr("generate: top-k: "));
  for (const double top_p : {0.0, -0.5, 1.5, std::nan("")})
    EXPECT_THAT(refusal({.tokens = 1, .top_p = top_p}), HasSubstr("generate: top-p: ")) << top_p;
  for (const double penalty : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THAT(refusal({.tokens = 1, .repetition_penalty = penalty}),
                HasSubstr("generate: repetition-penalty: "))
        << penalty;
}

TEST(Generate, SamplesOfOneSeedDiffer) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  const auto made = [&model](int64_t sample) {
    return generate(model, {65}, {.tokens = 8, .temperature = 1, .top_k = 0, .sample = sample});
  };
  EXPECT_EQ(made(1), made(1));
  EXPECT_NE(made(0), made(1));
  EXPECT_EQ(made(0), generate(model, {65}, {.tokens = 8, .temperature = 1, .top_k = 0}));
}

TEST(Generate, RefusesImpossibleNumbers) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  EXPECT_THROW(generate(model, {}, {}), Error);
  EXPECT_THROW(generate(model, {1}, {.temperature = -1}), Error);
  EXPECT_THROW(generate(model, {1}, {.temperature = std::nan("")}), Error);
  EXPECT_THROW(generate(model, {1}, {.top_k = -1}), Error);
  EXPECT_THROW(generate(model, {1}, {.top_p = 0}), Error);
  EXPECT_THROW(generate(model, {1}, {.top_p = 1.5}), Error);
  EXPECT_THROW(generate(model, {1}, {.repetition_penalty = 0}), Error);
  EXPECT_THROW(generate(model, {300}, {.tokens = 1}), Error);
  EXPECT_THROW(generate(model, {1}, {.tokens = std::numeric_limits<int64_t>::max()}), Error);
}

TEST(Generate, RefusesLogitsThatAreNoNumbers) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const GenerateOptions choices[] = {
      {.temperature = 0}, {}, {.top_k = 0}, {.top_k = 0, .top_p = 0.5}};
  for (const GenerateOptions& options : choices) {
    for (const auto& logits : {std::vector{1.0, nan}, {infinity, 1.0}, {-infinity, -infinity}})
      EXPECT_THAT(test::error_of([&] { choose(logits, options, 0.5); }),
                  HasSubstr("the model's logits: expected finite numbers"));
    EXPECT_EQ(choose({-infinity, 1}, options, 0.5), 1);
  }
}

TEST(Generate, PrintableTextIsUtf8WithoutControls) {
  EXPECT_EQ(printable("a\n\tb"), "a\n\tb");
  EXPECT_EQ(printable("\x1b[31m"), "?[31m");
  EXPECT_EQ(printable("\u009b31m"), "?31m");  // the same in one character
  EXPECT_EQ(printable("\xc3\xa9\xff\xc3"), "\xc3\xa9??");
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");  // a surrogate
  EXPECT_EQ(printable("\xe2\x82\xac"), "\xe2\x82\xac");
}

TEST(TextStream, GivesOutWholeCharacters) {
  TextStream stream;
  EXPECT_EQ(stream.add("a\xe2"), "a");
  EXPECT_EQ(stream.add("\x82"), "");
  EXPECT_EQ(stream.add("\xac!"), "\xe2\x82\xac!");
  EXPECT_EQ(stream.add("\xf0\x9f\x98"), "");
  EXPECT_EQ(stream.add("x"), "???x");       // three bytes of four are not a character
  EXPECT_EQ(stream.add("\xed\xa0"), "??");  // never the beginning of one
  EXPECT_EQ(stream.add("\xc3"), "");
  EXPECT_EQ(stream.finish(), "?");
}

TEST(TextStream, GivesTheSameTextHoweverItIsCut) {
  const std::string bytes = "z\xc3\xa9\xff\xf0\x9f\x98\x80\xe0\x80\xc3(\x1b\n\xf4\x90\xe2\x82";
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    TextStream stream;
    std::string text = stream.add(bytes.substr(0, cut));
    text += stream.add(bytes.substr(cut));
    EXPECT_EQ(text + stream.finish(), printable(bytes)) << cut;
  }
}

}  // namespace
}  // namespace binade::train
