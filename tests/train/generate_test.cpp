#include "binade/train/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "binade/base/error.h"

namespace binade::train {
namespace {

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

// softmax(log 1, log 2, log 5): shares 1/8, 2/8, 5/8, likeliest first.
TEST(Generate, DrawsByProbability) {
  const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(5.0)};
  std::map<int64_t, int> counts;
  for (int i = 0; i < 800; ++i)
    ++counts[choose(logits, {.temperature = 1, .top_k = 0}, (i + 0.5) / 800)];
  EXPECT_EQ(counts[2], 500);
  EXPECT_EQ(counts[1], 200);
  EXPECT_EQ(counts[0], 100);
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

TEST(Generate, RefusesImpossibleNumbers) {
  nn::GPT model({.layers = 1, .width = 16, .heads = 2, .vocab = 256, .context = 8});
  EXPECT_THROW(generate(model, {}, {}), Error);
  EXPECT_THROW(generate(model, {1}, {.temperature = -1}), Error);
  EXPECT_THROW(generate(model, {1}, {.temperature = std::nan("")}), Error);
  EXPECT_THROW(generate(model, {1}, {.top_k = -1}), Error);
  EXPECT_THROW(generate(model, {300}, {.tokens = 1}), Error);
}

TEST(Generate, PrintableTextIsUtf8WithoutControls) {
  EXPECT_EQ(printable("a\n\tb"), "a\n\tb");
  EXPECT_EQ(printable("\x1b[31m"), "?[31m");
  EXPECT_EQ(printable("\xc3\xa9\xff\xc3"), "\xc3\xa9??");
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");  // a surrogate
  EXPECT_EQ(printable("\xe2\x82\xac"), "\xe2\x82\xac");
  EXPECT_EQ(text_of({72, 105, 300}), "Hi?");
}

}  // namespace
}  // namespace binade::train
