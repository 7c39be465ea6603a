#include "binade/ops/fp8/matmul.h"

#include <gtest/gtest.h>

#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/fp8/quantize.h"
#include "binade/ops/matmul/matmul.h"
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

TEST(Fp8Matmul, AppliesBothScalesAndAccumulates) {
  const Quantized a = quantize(test::noise({5, 8}, 1)), b = quantize(test::noise({7, 8}, 2));
  const Tensor expected = matmul(dequantize(a), transpose(dequantize(b), 0, 1));
  const Tensor y = Tensor::empty({5, 7}, DType::f32);
  fp8_matmul(rowwise(a), transposed(rowwise(b)), {y, false});
  const std::vector<double> once = test::read(y), values = test::read(expected);
  // The oracle scales before the sums, fp8_matmul after them: eight terms of a few units each.
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_NEAR(once[i], values[i], 64 * epsilon(DType::f32));
  fp8_matmul(rowwise(a), transposed(rowwise(b)), {y, true});
  const std::vector<double> twice = test::read(y);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FLOAT_EQ(twice[i], 2 * once[i]);
}

TEST(Fp8Matmul, ColumnwiseReadsTheTransposedData) {
  const Quantized q = with_transposed(quantize(test::noise({5, 8}, 1)));
  const ScaledMatrix along = columnwise(q);
  EXPECT_EQ(along.matrix.storage(), q.transposed.storage());
  EXPECT_EQ(test::read(along.matrix), test::read(q.data));
  EXPECT_EQ(along.matrix.shape(), q.data.shape());
  const Quantized kept = kept_for_wgrad(q);
  EXPECT_FALSE(kept.data.defined());
  EXPECT_EQ(test::read(columnwise(kept).matrix), test::read(q.data));
  const Quantized plain = kept_for_wgrad(quantize(test::noise({5, 8}, 1)));
  EXPECT_EQ(test::read(columnwise(plain).matrix), test::read(q.data));
}

TEST(Fp8Matmul, MultipliesTheValuesOfFinerGroups) {
  const Quantized a = quantize(test::noise({5, 8}, 1), {.group = {1, 0}}),
                  b = quantize(test::noise({7, 8}, 2), {.group = {1, 0}});
  const Tensor y = Tensor::empty({5, 7}, DType::f32);
  fp8_matmul(rowwise(a), transposed(rowwise(b)), {y, false});
  const Tensor expected = matmul(dequantize(a), transpose(dequantize(b), 0, 1));
  EXPECT_EQ(test::read(y), test::read(expected));  // the CPU multiplies their values
}

}  // namespace
}  // namespace binade::ops
