#include "binade/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

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

// Sources of 60 and 190 tokens, drawn 3 to 1. An id shows its source and its position there.
constexpr int64_t first_size = 60, second_size = 190;
Tokens mixture() {
  std::string first, second;
  for (int64_t i = 0; i < first_size; ++i) first += static_cast<char>(i);
  for (int64_t i = 0; i < second_size; ++i) second += static_cast<char>(first_size + i);
  const Tokens runs[] = {Tokens::of_bytes(first), Tokens::of_bytes(second)};
  return Tokens::mixed(runs, std::vector<double>{3, 1});
}

// The first id of each row, whose ids and targets count up from it without leaving its source.
std::vector<int64_t> starts_of(const Batch& batch, int64_t context) {
  const auto tokens = values(batch.tokens), targets = values(batch.targets);
  std::vector<int64_t> starts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (std::cmp_equal(i % static_cast<size_t>(context), 0)) starts.push_back(tokens[i]);
    EXPECT_EQ(tokens[i], starts.back() + static_cast<int64_t>(i) % context);
    EXPECT_EQ(targets[i], tokens[i] + 1);
    EXPECT_EQ(tokens[i] < first_size, targets[i] < first_size);
  }
  return starts;
}

TEST(Batches, MixturesAreDrawnByWeightAndNeverAcrossSources) {
  const Tokens mixed = mixture();
  int64_t from_first = 0, rows = 0;
  std::set<int64_t> seen;
  for (int64_t step = 0; step < 3000; ++step) {
    for (const int64_t start : starts_of(training_batch(mixed, {4, 8}, 7, step, 0), 8)) {
      from_first += start < first_size ? 1 : 0;
      ++rows;
      seen.insert(start);
    }
  }
  // 12,000 draws of probability 3/4: four standard deviations of sqrt(12000 * 3/16) = 47.4.
  EXPECT_NEAR(static_cast<double>(from_first), 0.75 * static_cast<double>(rows), 190);
  // Every place of both sources that has room for 8 tokens and the next.
  EXPECT_EQ(std::ssize(seen), (first_size - 8) + (second_size - 8));
  EXPECT_EQ(values(training_batch(mixed, {4, 8}, 7, 3, 1).tokens),
            values(training_batch(mixture(), {4, 8}, 7, 3, 1).tokens));
}

TEST(Batches, ValidationOfAMixtureHasTheSharesOfItsWeights) {
  std::vector<int64_t> first, second;
  for (int64_t index = 0; index < 10; ++index) {
    for (const int64_t start : starts_of(validation_batch(mixture(), {4, 8}, index, 10), 8))
      (start < first_size ? first : second).push_back(start);
  }
  EXPECT_EQ(first.size(), 30u);
  EXPECT_EQ(second.size(), 10u);
  // Spread evenly over each source, whose last row starts 9 ids before its end.
  const auto expect_spread = [](std::vector<int64_t> starts, int64_t begin, int64_t size) {
    std::ranges::sort(starts);
    for (size_t i = 0; i < starts.size(); ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(starts.size());
      EXPECT_NEAR(static_cast<double>(starts[i] - begin), share * static_cast<double>(size - 9), 1);
    }
  };
  expect_spread(first, 0, first_size);
  expect_spread(second, first_size, second_size);
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
