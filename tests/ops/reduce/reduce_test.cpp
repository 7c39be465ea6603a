#include "binade/ops/reduce/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "support/values.h"

// Integers, truth and deviations; the op table tries floating types.
namespace binade {
namespace {

using testing::ElementsAre;

TEST(IntegerReductions, AreExactAndKeepTheirType) {
  constexpr int64_t large = int64_t{1} << 60;
  const Tensor x = tensor(std::vector<int64_t>{large, 3, large + 1, -5}, {2, 2});
  EXPECT_EQ(max(x).data<int64_t>()[0], large + 1);
  EXPECT_EQ(min(x).data<int64_t>()[0], -5);
  EXPECT_EQ(sum(x, 1).data<int64_t>()[0], large + 3);
  EXPECT_EQ(cumsum(x, 0).data<int64_t>()[2], 2 * large + 1);
  EXPECT_THAT(test::read(argmax(x, 1)), ElementsAre(0, 0));
  EXPECT_THAT(test::read(argmin(x, 0)), ElementsAre(0, 1));
  EXPECT_EQ(prod(tensor(std::vector<int64_t>{large / 2, 3, 2}, {3})).data<int64_t>()[0], 3 * large);
  const Tensor small = tensor({3, 1, 2}, DType::i32);
  EXPECT_EQ(max(small).dtype(), DType::i32);
  EXPECT_EQ(prod(small).dtype(), DType::i64);
  EXPECT_EQ(cumsum(small, 0).dtype(), DType::i64);
}

TEST(Truth, OfIntegersAndNothing) {
  const Tensor x = tensor({0, 1, 1, 1}, DType::i64);
  EXPECT_THAT(test::read(any(x)), ElementsAre(1));
  EXPECT_THAT(test::read(all(x)), ElementsAre(0));
  EXPECT_THAT(test::read(all(greater(x, -1))), ElementsAre(1));
  EXPECT_THAT(test::read(any(zeros({0}))), ElementsAre(0));
  EXPECT_THAT(test::read(all(zeros({0}))), ElementsAre(1));
  EXPECT_THAT(test::read(any(tensor({NAN, 0}, {2, 1}), 1)), ElementsAre(1, 0));
}

// PyTorch's gradient of std is 0 where all elements are equal, not 0 / 0.
TEST(Deviation, HasNoGradientWhereItIsZero) {
  Tensor x = tensor({2, 2, 2, 1, 2, 3}, {2, 3});
  x.set_requires_grad();
  const Tensor y = binade::std(x, 1);
  EXPECT_THAT(test::read(y), ElementsAre(0, 1));
  sum(y).backward();
  EXPECT_THAT(test::read(x.grad()), ElementsAre(0, 0, 0, -0.5, 0, 0.5));
}

}  // namespace
}  // namespace binade
