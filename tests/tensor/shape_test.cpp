#include "binade/tensor/shape.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "binade/base/error.h"
#include "support/error_of.h"

namespace binade {
namespace {

TEST(Shape, HoldsItsSizes) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape.front(), 2);
  EXPECT_EQ(shape.back(), 5);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(to_string(shape), "[2, 3, 5]");
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ((Shape{3, 0, 2}.numel()), 0);
  EXPECT_EQ(Shape::filled(3, 7), (Shape{7, 7, 7}));
}

TEST(Shape, RefusesAxesItDoesNotHave) {
  Shape shape{2, 3};
  for (const int axis : {-1, 2, 7, 100}) {
    EXPECT_EQ(test::error_of([&] { static_cast<void>(std::as_const(shape)[axis]); }),
              "shape: axis: expected 0 to 1 for [2, 3], found " + std::to_string(axis));
    EXPECT_NE(test::error_of([&] { shape[axis] = 1; }), "");
  }
  EXPECT_EQ(test::error_of([] { static_cast<void>(Shape().front()); }),
            "shape: axis: expected no axis: this is the shape of a scalar, found 0");
  EXPECT_NE(test::error_of([] { static_cast<void>(Shape().back()); }), "");
}

TEST(Shape, ComparesByRankAndSizes) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE(Shape(), (Shape{1}));
}

TEST(Shape, GrowsAndShrinksAnywhere) {
  Shape shape{2, 3};
  shape.insert(0, 1);
  shape.insert(2, 7);
  shape.push_back(5);
  EXPECT_EQ(shape, (Shape{1, 2, 7, 3, 5}));
  shape.erase(2);
  shape.erase(0);
  shape.erase(2);
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(Shape, HasEightAxesAtMost) {
  Shape shape = Shape::filled(max_rank, 1);
  EXPECT_EQ(shape.rank(), 8);
  EXPECT_EQ(test::error_of([&] { shape.push_back(1); }),
            "shape: rank: expected at most 8, found 9");
  EXPECT_EQ(shape.rank(), 8);
  EXPECT_NE(test::error_of([] { Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}; }), "");
}

TEST(Shape, CountsWithoutOverflow) {
  const int64_t half = int64_t{1} << 32;
  EXPECT_EQ((Shape{half, half / 2 - 1}.numel()), half * (half / 2 - 1));
  EXPECT_EQ(test::error_of([&] {
              Shape{half, half}.numel();
            }),
            "shape: sizes: expected fewer than 2^63 elements, found [4294967296, 4294967296]");
  // A zero size gives zero elements, even if the other sizes overflow.
  EXPECT_EQ((Shape{half, half, 0}.numel()), 0);
}

TEST(Shape, DenseStridesAreRowMajor) {
  EXPECT_EQ(dense_strides({2, 3, 5}), (Strides{15, 5, 1}));
  EXPECT_EQ(dense_strides({}), Strides());
  EXPECT_EQ(dense_strides({3, 0, 2}), (Strides{2, 2, 1}));
}

struct Broadcast {
  Shape a, b, result;
};

TEST(Shape, BroadcastsAsPyTorchDoes) {
  const Broadcast cases[] = {
      {{}, {}, {}},
      {{3}, {}, {3}},
      {{3}, {1}, {3}},
      {{2, 3}, {3}, {2, 3}},
      {{2, 1}, {1, 5}, {2, 5}},
      {{2, 1, 3}, {4, 1}, {2, 4, 3}},
      {{0, 3}, {1, 3}, {0, 3}},
      {{1}, {0}, {0}},
  };
  for (const Broadcast& c : cases) {
    EXPECT_EQ(broadcast("add", c.a, c.b), c.result) << to_string(c.a) << " " << to_string(c.b);
    EXPECT_EQ(broadcast("add", c.b, c.a), c.result) << to_string(c.b) << " " << to_string(c.a);
  }
  EXPECT_EQ(test::error_of([] {
              broadcast("add", {2, 3}, {2});
            }),
            "add: operands: expected shapes that broadcast, found [2, 3] and [2]");
  EXPECT_NE(test::error_of([] { broadcast("add", {0}, {2}); }), "");
}

TEST(Shape, AxesCountFromEitherEnd) {
  EXPECT_EQ(normalize_axis("sum", 0, 3), 0);
  EXPECT_EQ(normalize_axis("sum", 2, 3), 2);
  EXPECT_EQ(normalize_axis("sum", -1, 3), 2);
  EXPECT_EQ(normalize_axis("sum", -3, 3), 0);
  for (const int64_t axis : {int64_t{3}, int64_t{-4}, std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(
        test::error_of([&] { normalize_axis("sum", axis, 3); }),
        "sum: axis: expected an axis of a tensor with 3 dimensions, found " + std::to_string(axis));
  }
  EXPECT_NE(test::error_of([] { normalize_axis("sum", 0, 0); }), "");
}

}  // namespace
}  // namespace binade
