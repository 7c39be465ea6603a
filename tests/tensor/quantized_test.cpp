#include "binade/tensor/quantized.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

TEST(Quantized, HasAScaleForEachGroup) {
  const Shape matrix{300, 260};
  EXPECT_EQ(scale_shape(matrix, {0, 0}), (Shape{1, 1})) << "one per tensor";
  EXPECT_EQ(scale_shape(matrix, {1, 0}), (Shape{300, 1})) << "one per row";
  EXPECT_EQ(scale_shape(matrix, {1, 128}), (Shape{300, 3}))
      << "blocks of an activation, the last one partial";
  EXPECT_EQ(scale_shape(matrix, {128, 128}), (Shape{3, 3})) << "blocks of a weight";
  EXPECT_EQ(scale_shape(matrix, {1, 32}), (Shape{300, 9})) << "MX";
}

TEST(Quantized, GroupsOfAnEmptyMatrix) {
  EXPECT_EQ(scale_shape({0, 64}, {1, 32}), (Shape{0, 2}));
  EXPECT_EQ(scale_shape({0, 0}, {0, 0}), (Shape{1, 1}));
}

TEST(Quantized, IsDefinedByItsData) {
  Quantized q;
  EXPECT_FALSE(q.defined());
  q.data = Tensor::empty({2, 2}, DType::e4m3);
  EXPECT_TRUE(q.defined());
}

}  // namespace
}  // namespace binade
