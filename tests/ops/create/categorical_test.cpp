#include "binade/ops/create/categorical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "support/values.h"

namespace binade {
namespace {

using testing::ElementsAre;

TEST(OneHot, MarksEachIndex) {
  const Tensor index = tensor(std::vector<int64_t>{2, 0}, {2});
  const Tensor y = one_hot(index, 4);
  EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_EQ(y.shape(), (Shape{2, 4}));
  EXPECT_THAT(test::read(y), ElementsAre(0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_EQ(one_hot(index).shape(), (Shape{2, 3}));
  EXPECT_THROW(one_hot(index, 2), Error);
  EXPECT_THROW(one_hot(tensor(std::vector<int64_t>{-1}, {1}), 2), Error);
  EXPECT_THROW(one_hot(zeros({2}), 2), Error);
}

TEST(Multinomial, DrawsInProportionToTheWeights) {
  constexpr int64_t count = 20000;
  const Tensor weights = tensor({1, 0, 3, 4}, {4});
  const Tensor drawn = multinomial(
      weights, count, {.replacement = true, .key = random::Key{.seed = 5, .stream = 2}});
  std::vector<double> times(4);
  for (const double category : test::read(drawn)) ++times[static_cast<size_t>(category)];
  EXPECT_EQ(times[1], 0);
  for (const auto& [category, p] : {std::pair(0, 1.0 / 8), {2, 3.0 / 8}, {3, 4.0 / 8}}) {
    const double deviation = std::sqrt(p * (1 - p) * count);
    EXPECT_NEAR(times[static_cast<size_t>(category)], p * count, 5 * deviation) << category;
  }
}

TEST(Multinomial, WithoutReplacementEachCategoryOnce) {
  const Tensor weights = tensor({1, 2, 3, 0.5, 4, 5, 0.25, 8}, {2, 4}, DType::bf16);
  const random::Key key{.seed = 9, .stream = 1};
  const Tensor drawn = multinomial(weights, 4, {.key = key});
  EXPECT_EQ(drawn.shape(), (Shape{2, 4}));
  const std::vector<double> values = test::read(drawn);
  for (size_t row = 0; row < 2; ++row)
    EXPECT_EQ(std::set<double>(values.begin() + 4 * row, values.begin() + 4 * row + 4).size(), 4u);
  EXPECT_EQ(values, test::read(multinomial(weights, 4, {.key = key})));
}

TEST(Multinomial, RefusesWhatHasNoDistribution) {
  EXPECT_THROW(multinomial(tensor({1, -1}, {2}), 1), Error);
  EXPECT_THROW(multinomial(tensor({0, 0}, {2}), 1), Error);
  EXPECT_THROW(multinomial(tensor({1, NAN}, {2}), 1), Error);
  EXPECT_THROW(multinomial(tensor({1, 1}, {2}), 3), Error);
  EXPECT_THROW(multinomial(tensor({1, 0}, {2}), 2), Error);
  EXPECT_THROW(multinomial(zeros({2, 2, 2}), 1), Error);
}

}  // namespace
}  // namespace binade
