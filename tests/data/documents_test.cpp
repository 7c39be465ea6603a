#include "binade/data/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

namespace binade::data {
namespace {

using ::testing::ElementsAre;

// Documents of the given lengths; document i holds the id i + 1, all of it targets.
Documents documents_of(const std::vector<int64_t>& lengths, const Documents::Options& options) {
  std::string ids, targets;
  std::vector<int64_t> ends;
  for (size_t i = 0; i < lengths.size(); ++i) {
    ids.append(static_cast<size_t>(lengths[i]), static_cast<char>(i + 1));
    targets.append(static_cast<size_t>(lengths[i]), '\1');
    ends.push_back(static_cast<int64_t>(ids.size()));
  }
  return {Tokens::of_bytes(ids), Tokens::of_bytes(targets), ends, options};
}

std::vector<int64_t> values_of(const Tensor& x) {
  return {x.data<int64_t>(), x.data<int64_t>() + x.numel()};
}

TEST(Documents, EveryPassHasEachRowOnceInAnotherOrder) {
  const Documents documents = documents_of(std::vector<int64_t>(21, 3), {.context = 8});
  ASSERT_EQ(documents.rows(), 21);
  std::vector<std::vector<int64_t>> passes;
  for (int64_t pass = 0; pass < 3; ++pass) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 7; ++i) {
      const Batch batch = documents.training_batch({3, 8}, 5, pass * 7 + i, 0);
      for (int64_t row = 0; row < 3; ++row)
        order.push_back(values_of(batch.tokens)[static_cast<size_t>(row * batch.tokens.size(1))]);
    }
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 21u);
    passes.push_back(order);
  }
  EXPECT_NE(passes[0], passes[1]);
  EXPECT_NE(passes[1], passes[2]);
}

TEST(Documents, ExampleIsThePromptAndTheFirstAnswer) {
  const auto of = [](const char* text) { return Tokens::of_bytes(text); };
  const std::string targets(
      "\0\0\0\1\1"
      "\0\1\1\0\1\0"
      "\1\1",
      13);
  const Documents documents(of("abcdefghijklm"), Tokens::of_bytes(targets), {5, 11, 13},
                            {.context = 20});
  EXPECT_THAT(documents.example(0).prompt, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(documents.example(0).answer, ElementsAre('d', 'e'));
  EXPECT_THAT(documents.example(1).prompt, ElementsAre('f'));
  EXPECT_THAT(documents.example(1).answer, ElementsAre('g', 'h'));
  EXPECT_THAT(documents.example(2).prompt, ElementsAre());
  EXPECT_THAT(documents.example(2).answer, ElementsAre('l', 'm'));
}

// Losses are means over a batch's targets: with these weights a step's is the mean over all.
TEST(Documents, WeightsFollowTheNumberOfTargets) {
  const Documents documents = documents_of({2, 3, 5, 9}, {.context = 8});
  double sum = 0;
  for (int64_t micro = 0; micro < 2; ++micro) {
    const Batch batch = documents.training_batch({2, 8, 2}, 1, 0, micro);
    int64_t targets = 0;
    for (const int64_t target : values_of(batch.targets)) targets += target >= 0 ? 1 : 0;
    EXPECT_NEAR(batch.weight.item(), 2.0 * static_cast<double>(targets) / (1 + 2 + 4 + 8), 1e-6);
    sum += batch.weight.item();
  }
  EXPECT_NEAR(sum, 2, 1e-6);
}

TEST(Documents, RowsArePaddedToTheLongest) {
  const Documents documents = documents_of({3, 6}, {.context = 100});
  const Batch batch = documents.consecutive_batch({2, 100}, 0);
  EXPECT_THAT(values_of(batch.tokens), ElementsAre(2, 2, 2, 2, 2, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(values_of(batch.targets), ElementsAre(2, 2, 2, 2, 2, -100, -100, -100, 1, 1, -100,
                                                    -100, -100, -100, -100, -100));
  EXPECT_TRUE(batch.documents.empty());
}

// Padding is no token, whatever the width of a batch.
TEST(Documents, TokensOfAStepAreTheInputsInItsBatches) {
  for (const bool packed : {false, true}) {
    const Documents documents =
        documents_of({2, 40, 3, 5, 9, 4, 2, 3, 6}, {.context = 32, .packed = packed});
    const BatchShape shape{2, 32, 2};
    for (int64_t step = 0; step < 5; ++step) {
      int64_t expected = 0;
      for (int64_t micro = 0; micro < 2; ++micro) {
        const auto values = values_of(documents.training_batch(shape, 7, step, micro).tokens);
        expected += std::ssize(values) - std::count(values.begin(), values.end(), 0);
      }
      EXPECT_EQ(documents.training_tokens(shape, 7, step), expected) << packed << step;
      EXPECT_LT(expected, 2 * 2 * 32);
    }
  }
  EXPECT_EQ(training_tokens(Tokens::of_bytes("a text"), {3, 5, 2}, 7, 1), 30);
}

TEST(Documents, PackedRowsNameTheirDocuments) {
  const Documents documents = documents_of({4, 6, 3, 6}, {.context = 8, .packed = true});
  ASSERT_EQ(documents.rows(), 2);  // 5 + 3 and 5 + 2 inputs
  const Batch batch = documents.consecutive_batch({2, 8}, 0);
  EXPECT_THAT(values_of(batch.tokens), ElementsAre(2, 2, 2, 2, 2, 1, 1, 1, 4, 4, 4, 4, 4, 3, 3, 0));
  EXPECT_THAT(batch.documents, ElementsAre(0, 5, 8, 13, 15, 16));
  EXPECT_EQ(values_of(batch.targets).back(), -100);
}

// Rows are drawn by the weights of their sources, however many documents a source has.
TEST(Documents, MixedRowsFollowTheWeights) {
  const auto few = std::make_shared<const Documents>(documents_of({3, 3}, {.context = 8}));
  std::string ids(90, '\7'), targets(90, '\1');
  std::vector<int64_t> ends;
  for (int64_t end = 3; end <= 90; end += 3) ends.push_back(end);
  const auto many = std::make_shared<const Documents>(
      Tokens::of_bytes(ids), Tokens::of_bytes(targets), ends, Documents::Options{.context = 8});
  const std::shared_ptr<const Documents> parts[] = {few, many};
  const double weights[] = {3, 1};
  const Documents mixed = Documents::mixed(parts, weights);
  ASSERT_EQ(mixed.rows(), 32);
  EXPECT_EQ(mixed.size(), 32);
  std::map<int64_t, int> drawn, spread;
  constexpr int64_t rows = 4000;
  for (int64_t step = 0; step < rows / 4; ++step)
    for (const int64_t id : values_of(mixed.training_batch({4, 8}, 5, step, 0).tokens)) ++drawn[id];
  for (int64_t i = 0; i < 4; ++i)
    for (const int64_t id : values_of(mixed.validation_batch({4, 8}, i, 4).tokens)) ++spread[id];
  // Two inputs a row; the standard deviation of a count of 3,000 among 4,000 is 27.
  EXPECT_NEAR(drawn[1] + drawn[2], 2 * 3000, 2 * 5 * 27);
  EXPECT_NEAR(drawn[1], 2 * 1500, 2 * 5 * 31);
  EXPECT_NEAR(drawn[7], 2 * 1000, 2 * 5 * 27);
  EXPECT_EQ(spread[1] + spread[2], 2 * 12);
  EXPECT_EQ(spread[7], 2 * 4);
}

TEST(Documents, ValidationSpreadsOverAllRows) {
  const Documents documents = documents_of({2, 2, 2, 2, 2, 2, 2, 2}, {.context = 8});
  std::vector<int64_t> first;
  for (int64_t i = 0; i < 2; ++i) {
    const Batch batch = documents.validation_batch({2, 8}, i, 2);
    for (int64_t row = 0; row < 2; ++row)
      first.push_back(values_of(batch.tokens)[static_cast<size_t>(row * batch.tokens.size(1))]);
  }
  EXPECT_THAT(first, ElementsAre(1, 3, 5, 7));
}

}  // namespace
}  // namespace binade::data
