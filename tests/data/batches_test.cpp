#include "binade/data/batches.h"

#include <gtest/gtest.h>

#include <set>

namespace binade::data {
namespace {

// Token i of this text is i modulo 251, so that a token shows its position.
Tokens numbered(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += static_cast<char>(i % 251);
  return Tokens::of_bytes(text);
}

std::vector<int64_t> values(const Tensor& x) {
  return {x.data<int64_t>(), x.data<int64_t>() + x.numel()};
}

TEST(Batches, TargetsAreTheNextTokens) {
  const Batch batch = training_batch(numbered(1000), {3, 8}, 1, 2, 0);
  ASSERT_EQ(batch.tokens.shape(), (Shape{3, 8}));
  const auto tokens = values(batch.tokens), targets = values(batch.targets);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(targets[i], (tokens[i] + 1) % 251);
}

TEST(Batches, AreAFunctionOfSeedStepAndMicroBatch) {
  const Tokens text = numbered(100'000);
  const auto batch = [&text](uint64_t seed, int64_t step, int64_t micro) {
    return values(training_batch(text, {4, 16}, seed, step, micro).tokens);
  };
  EXPECT_EQ(batch(1, 2, 3), batch(1, 2, 3));
  EXPECT_NE(batch(1, 2, 3), batch(2, 2, 3));
  EXPECT_NE(batch(1, 2, 3), batch(1, 3, 3));
  EXPECT_NE(batch(1, 2, 3), batch(1, 2, 4));
}

// Every position of a short text is drawn, including the first and the last, and none outside.
TEST(Batches, ReachEveryPlace) {
  std::set<int64_t> starts;
  for (int64_t step = 0; step < 200; ++step)
    starts.insert(training_batch(numbered(12), {1, 4}, 0, step, 0).tokens.data<int64_t>()[0]);
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Batches, TheShortestTextHasOnePlace) {
  EXPECT_EQ(values(training_batch(numbered(5), {1, 4}, 0, 0, 0).targets),
            (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(values(validation_batch(numbered(5), {1, 4}, 0, 1).targets),
            (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Batches, ValidationSpreadsFromStartToEnd) {
  const Tokens text = numbered(101);
  EXPECT_EQ(validation_batch(text, {2, 10}, 0, 2).tokens.data<int64_t>()[0], 0);
  const Batch last = validation_batch(text, {2, 10}, 1, 2);
  EXPECT_EQ(last.targets.data<int64_t>()[19], 100);
}

// Sources of 60 and 200 tokens whose ids tell them apart, drawn 3 to 1.
Tokens mixture() {
  const Tokens runs[] = {Tokens::of_bytes(std::string(60, 'a')),
                         Tokens::of_bytes(std::string(200, 'b'))};
  return Tokens::mixed(runs, std::vector<double>{3, 1});
}

TEST(Batches, MixturesAreDrawnByWeightAndNeverAcrossSources) {
  const Tokens mixed = mixture();
  int64_t from_first = 0, rows = 0;
  for (int64_t step = 0; step < 500; ++step) {
    const Batch batch = training_batch(mixed, {4, 8}, 7, step, 0);
    const auto tokens = values(batch.tokens), targets = values(batch.targets);
    for (size_t row = 0; row < 4; ++row, ++rows) {
      const std::set seen(tokens.begin() + 8 * row, tokens.begin() + 8 * (row + 1));
      ASSERT_EQ(seen.size(), 1u);
      ASSERT_EQ(targets[8 * row + 7], *seen.begin());
      from_first += *seen.begin() == 'a';
    }
  }
  // 2000 draws of probability 3/4: four standard deviations of sqrt(2000 * 3/16) = 19.4.
  EXPECT_NEAR(static_cast<double>(from_first), 0.75 * static_cast<double>(rows), 78);
  EXPECT_EQ(values(training_batch(mixed, {4, 8}, 7, 3, 1).tokens),
            values(training_batch(mixture(), {4, 8}, 7, 3, 1).tokens));
}

TEST(Batches, ValidationOfAMixtureHasTheSharesOfItsWeights) {
  int64_t from_first = 0;
  for (int64_t index = 0; index < 10; ++index) {
    const auto tokens = values(validation_batch(mixture(), {4, 8}, index, 10).tokens);
    for (size_t row = 0; row < 4; ++row) {
      ASSERT_EQ(tokens[8 * row], tokens[8 * row + 7]);
      from_first += tokens[8 * row] == 'a';
    }
  }
  EXPECT_EQ(from_first, 30);
}

TEST(Batches, ConsecutiveSequencesLeaveNothingOut) {
  const Batch batch = consecutive_batch(numbered(40), {3, 4}, 8);
  EXPECT_EQ(values(batch.tokens),
            (std::vector<int64_t>{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(values(batch.targets).front(), 9);
  EXPECT_EQ(values(batch.targets).back(), 20);
}

}  // namespace
}  // namespace binade::data
