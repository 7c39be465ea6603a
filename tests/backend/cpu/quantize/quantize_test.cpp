#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend {
namespace {

const QuantizeKernels& kernels = cpu::quantize_kernels;

Values transposed(const Values& values, int64_t rows, int64_t columns) {
  Values result;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row)
      result.push_back(values[static_cast<size_t>(row * columns + column)]);
  }
  return result;
}

TEST(CpuQuantize, WritesTheCodesTurnedToo) {
  constexpr int64_t rows = 67, columns = 131;
  const Tensor x = noise({rows, columns}, DType::bf16, 1), scale = filled({1}, DType::f32, 2.5);
  for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
    const Tensor q = filled({rows, columns}, fp8, 0), turn = filled({columns, rows}, fp8, 0);
    kernels.quantize(x, {scale, q, turn, {}});
    EXPECT_EQ(read(turn), transposed(read(q), rows, columns));
    const Tensor inverse = filled({1, 1}, DType::f32, 0);
    kernels.quantize_groups(x, {}, {}, q, turn, inverse);
    EXPECT_EQ(read(turn), transposed(read(q), rows, columns));
  }
}

TEST(CpuQuantize, AmaxGrowsInTheSamePass) {
  const Tensor x = make({2, 2}, DType::f32, {1, -3, 0.5, 2}), scale = filled({1}, DType::f32, 1);
  const Tensor q = filled({2, 2}, DType::e4m3, 0), amax = filled({1}, DType::f32, 0);
  kernels.quantize(x, {scale, q, {}, amax});
  EXPECT_EQ(read(amax), Values{3});
  const Tensor larger = filled({1}, DType::f32, 7);
  kernels.quantize(x, {scale, q, {}, larger});
  EXPECT_EQ(read(larger), Values{7});
  const Tensor infinite = make({1, 2}, DType::f32, {1, -std::numeric_limits<double>::infinity()});
  kernels.quantize(infinite, {scale, filled({1, 2}, DType::e4m3, 0), {}, amax});
  EXPECT_EQ(read(amax), Values{std::numeric_limits<double>::infinity()});
  const Tensor broken = make({1, 2}, DType::f32, {std::nan(""), 1});
  kernels.quantize(broken, {scale, filled({1, 2}, DType::e4m3, 0), {}, amax});
  EXPECT_TRUE(std::isnan(read(amax)[0]));
  kernels.quantize(x, {scale, q, {}, amax});
  EXPECT_TRUE(std::isnan(read(amax)[0]));
}

}  // namespace
}  // namespace binade::backend
