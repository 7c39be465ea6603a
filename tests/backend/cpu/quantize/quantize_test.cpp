#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"
#include "formats/targets.h"

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

// All that quantize_coded() writes.
Values coded(const Tensor& x, const GroupCoding& coding, const QuantizedLayout& layout) {
  const Quantized q = empty_quantized(x.shape(), layout, Device::cpu());
  kernels.quantize_coded(x, coding, QuantizedView(q));
  Values all = read(q.data);
  const Tensor values = filled(x.shape(), DType::bf16, 0);
  kernels.dequantize(QuantizedView(q), values);
  for (const Values& part : {read(q.scale_inv), read(values)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(CpuQuantize, CodesOfGroupsAreTheSameOnEveryInstructionSet) {
  const GroupCoding nearest{.rule = GroupRule::two_levels};
  const GroupCoding random{.rule = GroupRule::two_levels,
                           .hadamard = 16,
                           .signs = 0xD7E8,
                           .stochastic = true,
                           .key = {.seed = 3, .stream = 4},
                           .first = 5};
  const GroupCoding either{.rule = GroupRule::two_levels, .four_over_six = true};
  const QuantizedLayout nvfp4{.format = formats::spec::e2m1,
                              .group = {1, 16},
                              .scale = formats::spec::e4m3,
                              .outer = ScaleGroup{}};
  const QuantizedLayout mxfp6{
      .format = formats::spec::e2m3, .group = {1, 32}, .scale = formats::spec::e8m0};
  const QuantizedLayout int8{.format = formats::spec::int8, .group = {1, 0}};
  const std::pair<GroupCoding, QuantizedLayout> cases[] = {
      {nearest, nvfp4},      {random, nvfp4},
      {either, nvfp4},       {{.rule = GroupRule::mx_floor}, mxfp6},
      {GroupCoding{}, int8}, {{.rule = GroupRule::mx_round_up}, mxfp6}};
  for (const auto& [coding, layout] : cases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = noise({45, 83}, dtype, 9);
      const Tensor columns = x.strided({83, 45}, {1, 83}, 0);
      const Values expected = coded(x, coding, layout);
      const Tensor dense = make({83, 45}, dtype, transposed(read(x), 45, 83));
      const Values of_columns = coded(dense, coding, layout);
      formats::testing::for_each_target([&, &coding = coding, &layout = layout] {
        EXPECT_EQ(coded(x, coding, layout), expected);
        EXPECT_EQ(coded(columns, coding, layout), of_columns);
      });
    }
  }
}

TEST(CpuQuantize, HadamardTransformsOfEverySizeAreOrthonormal) {
  for (const int size : {2, 4, 8, 16, 32, 64}) {
    const Tensor x = noise({3, 70}, DType::f32, 2);
    const Values values = read(x);
    const Quantized q =
        empty_quantized({3, 70}, {.format = formats::spec::int8, .group = {1, 1}}, Device::cpu());
    const uint64_t signs = 0x123456789ABCDEF1;
    kernels.quantize_coded(x, {.hadamard = size, .signs = signs}, QuantizedView(q));
    const Tensor found = filled({3, 70}, DType::f32, 0);
    kernels.dequantize(QuantizedView(q), found);  // each value is its own group: exact but for bf16
    const Values result = read(found);
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t i = 0; i < 70; ++i) {
        const int64_t begin = i / size * size;
        double expected = values[static_cast<size_t>(row * 70 + i)];
        if (begin + size <= 70) {
          expected = 0;
          for (int64_t k = 0; k < size; ++k) {
            const int bits = __builtin_popcountll(static_cast<uint64_t>((i - begin) & k));
            const bool minus = (bits % 2 != 0) != ((signs >> k & 1) != 0);
            const double value = values[static_cast<size_t>(row * 70 + begin + k)];
            expected += (minus ? -value : value) / std::sqrt(size);
          }
        }
        EXPECT_NEAR(result[static_cast<size_t>(row * 70 + i)], expected,
                    0.004 * std::abs(expected) + 1e-5)
            << size << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace binade::backend::cpu_quantize_test
