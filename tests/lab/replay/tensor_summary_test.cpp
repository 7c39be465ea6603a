#include "binade/lab/replay/tensor_summary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/ops/create/create.h"

namespace binade::lab {
namespace {

TEST(TensorSummary, CountsByHand) {
  // Of f16: its largest number, an infinity, a NaN, zeros, a subnormal.
  const std::vector<double> values = {65504, 2, -3, 0, 0, INFINITY, NAN, 0x1p-20};
  const Tensor x = tensor(values, {2, 4}, DType::f16);
  const TensorSummary s = summarize(x);
  EXPECT_EQ(s.numbers.count, 8);
  EXPECT_EQ(s.numbers.zeros, 2);
  EXPECT_EQ(s.numbers.infinities, 1);
  EXPECT_EQ(s.numbers.nans, 1);
  EXPECT_EQ(s.numbers.min, -3);
  EXPECT_EQ(s.amax, 65504);
  EXPECT_EQ(s.saturated, 0.25);
  // Of the six finite ones.
  EXPECT_NEAR(s.rms, std::sqrt((65504.0 * 65504 + 4 + 9) / 6), 1);
  EXPECT_EQ(s.numbers.exponents.at(15), 1);
  EXPECT_EQ(s.numbers.exponents.at(1), 2);
  EXPECT_FALSE(s.shadow);
  ASSERT_EQ(s.outliers.size(), 5u);
  EXPECT_EQ(s.outliers[0].index, Shape({1, 1}));  // the infinity and the NaN first
  EXPECT_EQ(s.outliers[1].index, Shape({1, 2}));
  EXPECT_EQ(s.outliers[2].value, 65504);
  EXPECT_EQ(s.outliers[3].value, -3);
}

TEST(TensorSummary, ComparesWithTheShadow) {
  const Tensor x = tensor({0, 3, 0, 1}, {4}, DType::f32);
  const Tensor shadow = tensor({1, 3, 0, -1}, {4}, DType::f32);
  const TensorSummary s = summarize(x, shadow);
  ASSERT_TRUE(s.shadow);
  EXPECT_EQ(s.shadow->flushed, 0.25);
  EXPECT_EQ(s.shadow->largest, 2);
  EXPECT_NEAR(s.shadow->relative, std::sqrt(5.0 / 11), 1e-12);
  EXPECT_EQ(s.saturated, 0);
  EXPECT_FALSE(summarize(x, tensor({1, 2}, {2}, DType::f32)).shadow);
}

// Also of a transposed view, and of none at all.
TEST(TensorSummary, OfAnyLayout) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 60}, {2, 3}, DType::f32);
  const TensorSummary s = summarize(x.strided({3, 2}, {1, 3}, 0));
  EXPECT_EQ(s.outliers[0].index, Shape({2, 1}));
  EXPECT_EQ(s.outliers[0].value, 60);
  EXPECT_EQ(summarize(zeros({0, 3})).numbers.count, 0);
}

}  // namespace
}  // namespace binade::lab
