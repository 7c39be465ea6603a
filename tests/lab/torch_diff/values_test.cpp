#include "binade/lab/torch_diff/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"

namespace binade::lab {
namespace {

constexpr Distance exact = {};
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor drawn(const Shape& shape) { return randn(shape, random::Key{.seed = 7}); }

TEST(Values, AnyOrderOfAxesIsFound) {
  const Tensor x = drawn({2, 1, 3, 4, 5});
  for (const std::vector<int64_t>& axes :
       {std::vector<int64_t>{0, 1, 2, 3, 4}, {0, 3, 2, 1, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 3, 1}}) {
    const Values y = values_of(contiguous(permute(x, axes)));
    const Values flat = values_of(reshape(x, {6, 20}));
    const auto order = matching_order(flat, y, exact);
    ASSERT_TRUE(order);
    EXPECT_EQ(reordered(y, *order), flat.elements);
  }
}

TEST(Values, OtherElementsMatchInNoOrder) {
  const Values x = values_of(drawn({3, 4}));
  Values y = x;
  y.elements[11] += 1e-3f;
  EXPECT_FALSE(matching_order(x, y, exact));
  EXPECT_FALSE(matching_order(x, y, {.rms = 1e-2, .largest = 9e-4}));
  EXPECT_FALSE(matching_order(x, y, {.rms = 2e-4, .largest = 1e-2}));
  EXPECT_TRUE(matching_order(x, y, {.rms = 3e-4, .largest = 1.1e-3}));
  std::swap(y.elements[0], y.elements[1]);  // the norm is as it was
  EXPECT_FALSE(matching_order(x, y, {.rms = 3e-4, .largest = 1.1e-3}));
}

TEST(Values, NonFiniteElementsAreEqualToTheirOwnKindAlone) {
  EXPECT_EQ(distance_of(nan, nan), 0);
  EXPECT_EQ(distance_of(infinity, infinity), 0);
  EXPECT_EQ(distance_of(infinity, -infinity), infinity);
  EXPECT_EQ(distance_of(nan, 1.0f), infinity);
  Values x = values_of(drawn({2, 3}));
  x.elements[4] = nan;
  Values y = x;
  EXPECT_TRUE(matching_order(x, y, exact));
  y.elements[4] = 1;
  EXPECT_FALSE(matching_order(x, y, {.rms = 1, .largest = 1}));
}

TEST(Values, TheNearestOrderKeepsTheLastAxis) {
  const Tensor x = drawn({2, 3, 4, 5});
  const Tensor noise = drawn({2, 4, 3, 5}) * 0.1;
  const Values y = values_of(contiguous(transpose(x, 1, 2)) + noise);
  EXPECT_EQ(nearest_order(values_of(x), y), (AxisOrder{0, 2, 1, 3}));
  EXPECT_EQ(nearest_order(values_of(x), values_of(x)), AxisOrder());
}

TEST(Values, ColumnsAreThoseOfEveryRow) {
  const Values x = values_of(reshape(arange(12), {2, 1, 6}));
  EXPECT_EQ(columns_of(x, 6, 1, 3).elements, (std::vector<float>{1, 2, 7, 8}));
  EXPECT_EQ(element_index({2, 1, 6}, 7), (Shape{1, 0, 1}));
}

}  // namespace
}  // namespace binade::lab
