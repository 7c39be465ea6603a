#include "binade/ops/quantized/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/backend/gpu.h"
#include "binade/formats/number.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"

namespace binade::ops {
namespace {

// q with transposed data, as GPUs read it.
Quantized with_transposed(Quantized q) {
  q.transposed = Tensor::empty({q.data.size(1), q.data.size(0)}, q.data.dtype());
  for (int64_t row = 0; row < q.data.size(0); ++row) {
    for (int64_t column = 0; column < q.data.size(1); ++column)
      static_cast<uint8_t*>(q.transposed.raw_data())[column * q.data.size(0) + row] =
          static_cast<const uint8_t*>(q.data.raw_data())[row * q.data.size(1) + column];
  }
  return q;
}

TEST(QuantizedMatmul, AppliesBothScalesAndAccumulates) {
  const Quantized a = quantize(test::noise({5, 8}, 1)), b = quantize(test::noise({7, 8}, 2));
  const Tensor expected = matmul(dequantize(a), transpose(dequantize(b), 0, 1));
  const Tensor y = Tensor::empty({5, 7}, DType::f32);
  quantized_matmul(rowwise(a), transposed(rowwise(b)), {y, false});
  const std::vector<double> once = test::read(y), values = test::read(expected);
  // The oracle scales before the sums, quantized_matmul after them: eight terms of a few units
  // each.
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_NEAR(once[i], values[i], 64 * epsilon(DType::f32));
  quantized_matmul(rowwise(a), transposed(rowwise(b)), {y, true});
  const std::vector<double> twice = test::read(y);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FLOAT_EQ(twice[i], 2 * once[i]);
}

// Operands and sums are integers, so that nothing but the result is rounded, on any device: their
// e4m3 codes under a scale, saturated at 448, and their largest magnitude.
void expect_quantized_result(Device device, const Shape& a_shape, const Shape& b_shape, bool bias) {
  const auto small = [&](const Shape& shape, int64_t step) {
    Tensor x = Tensor::empty(shape, DType::f32);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.mutable_data<float>()[i] = static_cast<float>(i * step % 13 - 6);
    return x;
  };
  const Tensor left = small(a_shape, 5), right = small(b_shape, 7),
               added = bias ? small({b_shape[0]}, 3) : Tensor();
  const int64_t rows = a_shape[0], columns = b_shape[0], depth = a_shape[1];
  const double scale = 0.75;
  const auto on_device = [&](const Tensor& x) {
    Quantized q = quantize(x, 1.0);
    q.data = to(q.data, device);
    q.scale_inv = to(q.scale_inv, device);
    return q;
  };
  const Quantized a = on_device(left), b = on_device(right);
  const Tensor y = Tensor::empty({rows, columns}, DType::e4m3, device),
               amax = to(full({1}, 0, DType::f32), device),
               factor = to(full({1}, scale, DType::f32), device),
               wide_bias = bias ? to(added, device) : Tensor();
  quantized_matmul(rowwise(a), transposed(rowwise(b)),
                   backend::QuantizedOutput{.scale = factor, .data = y, .amax = amax},
                   {.bias = wide_bias, .fast_accumulation = true});
  const std::vector<double> found = test::read(to(y, Device::cpu()));
  double largest = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = bias ? added.data<float>()[j] : 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += left.data<float>()[i * depth + k] * right.data<float>()[j * depth + k];
      largest = std::max(largest, std::abs(sum));
      const auto code = formats::encode<formats::spec::e4m3>(static_cast<float>(sum * scale),
                                                             formats::Rounding::nearest_even,
                                                             formats::Overflow::saturate);
      ASSERT_EQ(found[static_cast<size_t>(i * columns + j)],
                formats::decode<formats::spec::e4m3>(code))
          << i << ", " << j;
    }
  }
  EXPECT_EQ(amax.item(), largest);
}

void expect_quantized_results(Device device) {
  expect_quantized_result(device, {64, 96}, {48, 96}, false);
  expect_quantized_result(device, {5, 8}, {7, 8}, false);
  expect_quantized_result(device, {32, 32}, {16, 32}, true);
}

TEST(QuantizedMatmul, QuantizesItsResult) { expect_quantized_results(Device::cpu()); }

TEST(QuantizedMatmulGpu, QuantizesItsResult) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  expect_quantized_results(Device::cuda());
}

TEST(QuantizedMatmul, ColumnwiseReadsTheTransposedData) {
  const Quantized q = with_transposed(quantize(test::noise({5, 8}, 1)));
  const ScaledMatrix along = columnwise(q);
  EXPECT_EQ(along.matrix.storage(), q.transposed.storage());
  EXPECT_EQ(test::read(along.matrix), test::read(q.data));
  EXPECT_EQ(along.matrix.shape(), q.data.shape());
  const Quantized kept = without_rows(q);
  EXPECT_FALSE(kept.data.defined());
  EXPECT_EQ(test::read(columnwise(kept).matrix), test::read(q.data));
  const Quantized plain = without_rows(quantize(test::noise({5, 8}, 1)));
  EXPECT_EQ(test::read(columnwise(plain).matrix), test::read(q.data));
}

TEST(QuantizedMatmul, MultipliesTheValuesOfFinerGroups) {
  const Quantized a = quantize(test::noise({5, 8}, 1), {.group = {1, 0}}),
                  b = quantize(test::noise({7, 8}, 2), {.group = {1, 0}});
  const Tensor y = Tensor::empty({5, 7}, DType::f32);
  quantized_matmul(rowwise(a), transposed(rowwise(b)), {y, false});
  const Tensor expected = matmul(dequantize(a), transpose(dequantize(b), 0, 1));
  EXPECT_EQ(test::read(y), test::read(expected));  // the CPU multiplies their values
}

}  // namespace
}  // namespace binade::ops
