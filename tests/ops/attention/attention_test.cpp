#include "binade/ops/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/base/random.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/tensor/memory.h"
#include "support/values.h"

// Masks, dropout and packed sequences; values and gradients are the op table's business
// (ops/table/transformer.cpp).
namespace binade {
namespace {

Tensor normal(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  return randn(shape, {.seed = seed, .stream = 1}, dtype);
}

TEST(MaskedAttention, GivesZerosAndNoGradientWhereEverythingIsHidden) {
  const double hidden = -INFINITY;
  for (const bool boolean : {true, false}) {
    Tensor q = normal({1, 1, 2, 3}, 1), k = normal({1, 1, 2, 3}, 2), v = normal({1, 1, 2, 3}, 3);
    for (Tensor* x : {&q, &k, &v}) x->set_requires_grad();
    const Tensor mask = boolean ? tensor({0, 0, 1, 1}, {2, 2}, DType::boolean)
                                : tensor({hidden, hidden, 0, 0}, {2, 2});
    const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = mask});
    const std::vector<double> values = to_vector(y);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(values[i], 0) << boolean;
    sum(y * y).backward();
    const std::vector<double> dq = to_vector(q.grad());
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(dq[i], 0) << boolean;
    for (const Tensor& x : {q, k, v}) {
      for (const double g : to_vector(x.grad())) EXPECT_TRUE(std::isfinite(g)) << boolean;
    }
  }
}

TEST(MaskedAttention, ACausalMaskIsCausalAttention) {
  const Tensor q = normal({2, 2, 5, 4}, 4), k = normal({2, 2, 5, 4}, 5),
               v = normal({2, 2, 5, 4}, 6);
  const Tensor i = unsqueeze(arange(5), 1), j = arange(5);
  const Tensor by_mask = scaled_dot_product_attention(q, k, v, {.mask = less_equal(j, i)});
  const Tensor causal = scaled_dot_product_attention_composite(q, k, v, {.causal = true});
  EXPECT_TRUE(test::same_bits(by_mask, causal));
}

// v = 1 makes every result the sum of the weights that were kept, over 1 - p.
TEST(AttentionDropout, DropsWeightsAndScalesTheOthers) {
  const Tensor q = normal({1, 2, 64, 8}, 7), k = normal({1, 2, 64, 8}, 8);
  const Tensor v = ones({1, 2, 64, 8});
  const auto run = [&] {
    random::begin_step(5, 0);
    return to_vector(scaled_dot_product_attention(q, k, v, {.dropout = 0.25}));
  };
  const std::vector<double> once = run();
  EXPECT_EQ(once, run());
  double total = 0, square = 0;
  for (const double x : once) {
    total += x;
    square += (x - 1) * (x - 1);
  }
  const auto count = static_cast<double>(once.size());
  // The 128 rows are independent, each of a deviation below 1.
  EXPECT_NEAR(total / count, 1, 3 / std::sqrt(128.0));
  EXPECT_GT(square / count, 1e-3);
  for (const double x : to_vector(scaled_dot_product_attention(q, k, v, {.dropout = 1})))
    EXPECT_EQ(x, 0);
}

TEST(VarlenAttention, IsAttentionOfEachSequenceBitForBit) {
  const std::vector<int64_t> offsets = {0, 130, 131, 400};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor q = normal({400, 4, 16}, 9, dtype), k = normal({400, 2, 16}, 10, dtype),
                 v = normal({400, 2, 16}, 11, dtype);
    const Tensor y = varlen_attention(q, k, v, {offsets}, {.causal = true});
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      const auto part = [&](const Tensor& x) {
        return unsqueeze(transpose(slice(x, 0, offsets[i], offsets[i + 1]), 0, 1), 0);
      };
      const Tensor alone =
          scaled_dot_product_attention(part(q), part(k), part(v), {.causal = true});
      EXPECT_TRUE(test::same_bits(alone, contiguous(part(y)))) << i << " " << name(dtype);
    }
  }
}

// Row boundaries as documents: the plain call. Gradients too.
TEST(VarlenAttention, PackedDocumentsAtRowBoundariesAreThePlainCall) {
  Tensor a = normal({3, 70, 4 * 8}, 12), b = a.detach();
  b = normal({3, 70, 4 * 8}, 12);
  a.set_requires_grad();
  b.set_requires_grad();
  const Tensor plain = packed_attention(a, 2, 1, {.causal = true});
  const Tensor documents =
      packed_attention(b, 2, 1, {.causal = true, .documents = {0, 70, 140, 210}});
  EXPECT_TRUE(test::same_bits(plain, documents));
  const Tensor dy = normal(plain.shape(), 13);
  plain.backward(dy);
  documents.backward(dy);
  EXPECT_TRUE(test::same_bits(a.grad(), b.grad()));
}

// A document does not see another one: changing it changes nothing elsewhere.
TEST(VarlenAttention, DocumentsDoNotSeeOneAnother) {
  const Tensor x = normal({1, 20, 4 * 8}, 14);
  const Tensor first = slice(x, 1, 0, 9), other = normal({1, 11, 4 * 8}, 15);
  const AttentionOptions options{.causal = true, .documents = {0, 9, 20}};
  const Tensor y = packed_attention(x, 2, 1, options),
               changed = packed_attention(cat({first, other}, 1), 2, 1, options);
  EXPECT_TRUE(test::same_bits(contiguous(slice(y, 1, 0, 9)), contiguous(slice(changed, 1, 0, 9))));
}

// 4096 rows: their scores would be 64 MiB for each head.
TEST(VarlenAttention, NeverStoresTheScores) {
  Tensor x = normal({1, 4096, 3 * 8}, 16);
  x.set_requires_grad();
  memory::reset_peak();
  const int64_t before = memory::peak();
  const Tensor y = packed_attention(x, 1, 1, {.causal = true, .documents = {0, 1000, 4096}});
  sum(y).backward();
  const int64_t grown = memory::peak() - before;
  EXPECT_LT(grown, int64_t{8} * 4096 * 3 * 8 * 4);
}

}  // namespace
}  // namespace binade
