// index() and index_put_() with all kinds of entries, by the positions NumPy's rules give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/values.h"

namespace binade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 0 to 23 as [2, 3, 4].
Tensor counted() { return reshape(arange(24, DType::f32), {2, 3, 4}); }

TEST(IndexEntries, NoneAddsAnAxisAndEllipsisFillsUp) {
  const Tensor x = counted();
  EXPECT_EQ(index(x, {None}).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(index(x, {Slice(), None, 1}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(index(x, {Ellipsis, None}).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_THAT(test::read(index(x, {Ellipsis, 0})), ElementsAre(0, 4, 8, 12, 16, 20));
  EXPECT_THAT(test::read(index(x, {1, Ellipsis, 3})), ElementsAre(15, 19, 23));
  EXPECT_THAT(test::read(index(x, {1, Ellipsis, 2, 3})), ElementsAre(23));
  EXPECT_TRUE(index(x, {Ellipsis}).same_as(x));
  EXPECT_EQ(index(x, {true, 0}).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(index(x, {false, 0}).shape(), (Shape{0, 3, 4}));
}

TEST(IndexEntries, TensorsSelect) {
  const Tensor x = counted();
  const Tensor y = index(x, {Slice(), tensor({2, -3})});
  EXPECT_EQ(y.shape(), (Shape{2, 2, 4}));
  EXPECT_THAT(test::read(index(y, {1})), ElementsAre(20, 21, 22, 23, 12, 13, 14, 15));
  const Tensor grid = index(x, {0, tensor({0, 2, 1, 0}, {2, 2}, DType::i64), 1});
  EXPECT_EQ(grid.shape(), (Shape{2, 2}));
  EXPECT_THAT(test::read(grid), ElementsAre(1, 9, 5, 1));
  EXPECT_EQ(index(x, {tensor(1)}).shape(), (Shape{3, 4}));
}

TEST(IndexEntries, MasksKeepWhereTheyAreTrue) {
  const Tensor x = counted();
  EXPECT_THAT(test::read(index(x, {x > 20})), ElementsAre(21, 22, 23));
  const Tensor rows = index(x, {Slice(), tensor({true, false, true}), 0});
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_THAT(test::read(rows), ElementsAre(0, 8, 12, 20));
  const Tensor pairs = index(x, {index(x, {Ellipsis, 0}) > 8});
  EXPECT_EQ(pairs.shape(), (Shape{3, 4}));
  EXPECT_THAT(test::read(index(pairs, {Slice(), 1})), ElementsAre(13, 17, 21));
  EXPECT_EQ(index(x, {x > 100}).shape(), (Shape{0}));
}

TEST(IndexEntries, OfTensorsAreDifferentiable) {
  Tensor x = counted();
  x.set_requires_grad();
  sum(index(x, {1, tensor({0, 0, 2}), 3})).backward();
  std::vector<double> expected(24, 0);
  expected[15] = 2;  // selected twice
  expected[23] = 1;
  EXPECT_EQ(test::read(x.grad()), expected);
}

TEST(IndexEntries, PutWritesThroughViewsAndTensors) {
  const Tensor x = zeros({2, 3});
  index_put_(x, {1, 2}, 5);
  index_put_(x, {Slice(), 0}, tensor({1.0, 2.0}));
  EXPECT_THAT(test::read(x), ElementsAre(1, 0, 0, 2, 0, 5));
  index_put_(x, {Slice(), tensor({1, -1})}, tensor({7.0, 8.0}));
  EXPECT_THAT(test::read(x), ElementsAre(1, 7, 8, 2, 7, 8));
  index_put_(x, {x == 7}, -1);
  EXPECT_THAT(test::read(x), ElementsAre(1, -1, 8, 2, -1, 8));
  // A view's memory, not a copy of it.
  index_put_(transpose(x, 0, 1), {tensor({0})}, 9);
  EXPECT_THAT(test::read(x), ElementsAre(9, -1, 8, 9, -1, 8));
  const Tensor half = zeros({3}, DType::bf16);
  index_put_(half, {tensor({true, false, true})}, tensor({1.0, 2.0}));
  EXPECT_THAT(test::read(half), ElementsAre(1, 0, 2));
}

TEST(IndexEntries, RefuseWhatDoesNotFit) {
  Tensor x = counted();
  const auto refused = [&x](const std::vector<IndexEntry>& entries) {
    return test::error_of([&] { index(x, entries); });
  };
  EXPECT_THAT(refused({Ellipsis, Ellipsis}), HasSubstr("at most one Ellipsis"));
  EXPECT_THAT(refused({tensor({0, 1}), tensor({0, 1, 2})}), HasSubstr("index"));
  EXPECT_THAT(refused({ones({2})}), HasSubstr("index: entries"));
  EXPECT_THAT(refused({Tensor()}), HasSubstr("index: entries"));
  EXPECT_THAT(refused({tensor({true, false, true})}), HasSubstr("index: entries"));
  EXPECT_THAT(refused({x > 0, 0}), HasSubstr("at most 3"));
  EXPECT_NE(refused({tensor({2})}), "");
  EXPECT_NE(refused({tensor({-3})}), "");
  x.set_requires_grad();
  EXPECT_THAT(test::error_of([&] { index_put_(x, {0}, 1); }), HasSubstr("NoGrad"));
  EXPECT_THAT(test::error_of([&] { index_put_(x, {tensor({0})}, 1); }), HasSubstr("NoGrad"));
  EXPECT_NE(test::error_of([] { index_put_(zeros({3}), {tensor({1, 1})}, 1); }), "");
}

}  // namespace
}  // namespace binade
