#include "binade/ops/index/sort.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/base/parallel.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "support/values.h"

// What the op table (ops/table/rearrange.cpp) does not: ties, NaN, integers, positions.
namespace binade {
namespace {

using testing::ElementsAre;

TEST(Sort, EqualElementsKeepTheirOrder) {
  const Tensor x = tensor({2, 1, 2, 1, 2}, {5});
  EXPECT_THAT(test::read(sort(x).index), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_THAT(test::read(sort(x, 0, Order::descending).index), ElementsAre(0, 2, 4, 1, 3));
  EXPECT_THAT(test::read(argsort(x)), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_THAT(test::read(topk(x, 2).index), ElementsAre(0, 2));
  EXPECT_THAT(test::read(topk(x, 3, 0, Order::ascending).index), ElementsAre(1, 3, 0));
}

TEST(Sort, NanIsTheLargest) {
  const double nan = NAN, inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const Tensor x = tensor({nan, 1, inf, -inf, nan, 0}, {6}, dtype);
    EXPECT_THAT(test::read(argsort(x)), ElementsAre(3, 5, 1, 2, 0, 4));
    EXPECT_THAT(test::read(argsort(x, 0, Order::descending)), ElementsAre(0, 4, 2, 1, 5, 3));
  }
}

TEST(Sort, IntegersAreExact) {
  constexpr int64_t large = int64_t{1} << 60;
  const Tensor x = tensor(std::vector<int64_t>{large + 1, -large, large, large + 2}, {4});
  const Sorted sorted = sort(x, 0, Order::descending);
  EXPECT_EQ(sorted.values.dtype(), DType::i64);
  EXPECT_THAT(test::read(sorted.index), ElementsAre(3, 0, 2, 1));
  EXPECT_EQ(sorted.values.data<int64_t>()[1], large + 1);
}

// Against std::stable_sort, along an inner axis.
TEST(Sort, IsTheStandardLibrarys) {
  const Tensor x = randint(0, 50, {3, 101, 4}, {.seed = 3, .stream = 1});
  const Tensor index = argsort(x, 1);
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      const auto line = test::read(contiguous(select(select(x, 0, a), 1, b)));
      std::vector<double> expected(line.size());
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(), [&](double i, double j) {
        return line[static_cast<size_t>(i)] < line[static_cast<size_t>(j)];
      });
      EXPECT_EQ(test::read(contiguous(select(select(index, 0, a), 1, b))), expected);
    }
  }
}

}  // namespace
}  // namespace binade
