#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_quantize_test {
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

TEST(CpuQuantize, WritesTransposedDataToo) {
  constexpr int64_t rows = 67, columns = 131;
  const Tensor x = noise({rows, columns}, DType::bf16, 1), scale = filled({1}, DType::f32, 2.5);
  for (const DType fp8 : {DType::e4m3, DType::e5m2}) {
    const Tensor q = filled({rows, columns}, fp8, 0), other_way = filled({columns, rows}, fp8, 0);
    kernels.quantize(x, {.scale = scale, .data = q, .transposed = other_way});
    EXPECT_EQ(read(other_way), transposed(read(q), rows, columns));
    const Tensor scale_inv = filled({1, 1}, DType::f32, 0);
    kernels.quantize_groups(x, {.data = q, .transposed = other_way, .scale_inv = scale_inv});
    EXPECT_EQ(read(other_way), transposed(read(q), rows, columns));
  }
}

TEST(CpuQuantize, AmaxGrowsInTheSamePass) {
  const Tensor x = make({2, 2}, DType::f32, {1, -3, 0.5, 2}), scale = filled({1}, DType::f32, 1);
  const Tensor q = filled({2, 2}, DType::e4m3, 0), amax = filled({1}, DType::f32, 0);
  kernels.quantize(x, {.scale = scale, .data = q, .amax = amax});
  EXPECT_EQ(read(amax), Values{3});
  const Tensor larger = filled({1}, DType::f32, 7);
  kernels.quantize(x, {.scale = scale, .data = q, .amax = larger});
  EXPECT_EQ(read(larger), Values{7});
  const Tensor infinite = make({1, 2}, DType::f32, {1, -std::numeric_limits<double>::infinity()});
  kernels.quantize(infinite,
                   {.scale = scale, .data = filled({1, 2}, DType::e4m3, 0), .amax = amax});
  EXPECT_EQ(read(amax), Values{std::numeric_limits<double>::infinity()});
  const Tensor broken = make({1, 2}, DType::f32, {std::nan(""), 1});
  kernels.quantize(broken, {.scale = scale, .data = filled({1, 2}, DType::e4m3, 0), .amax = amax});
  EXPECT_TRUE(std::isnan(read(amax)[0]));
  kernels.quantize(x, {.scale = scale, .data = q, .amax = amax});
  EXPECT_TRUE(std::isnan(read(amax)[0]));
}

}  // namespace
}  // namespace binade::backend::cpu_quantize_test
