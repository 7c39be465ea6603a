#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "binade/base/random.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/recompute.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "binade/tensor/memory.h"
#include "support/values.h"

// Attention of more queries than plain ops attend to at once, 512: with masks or dropout, which no
// kernel knows. fused_test.cpp compares windows and softcaps with the composite.
namespace binade {
namespace {

Tensor draws(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  return randn(shape, {.seed = seed, .stream = 2}, dtype);
}

// Rows and columns of masks belong to chunks of queries and their keys; an added mask gets a
// gradient.
TEST(ChunkedAttention, MasksAreCutWithTheirQueries) {
  const int64_t queries = 1100, keys = 700;
  const Tensor q = draws({2, 2, queries, 4}, 17), k = draws({2, 1, keys, 4}, 18),
               v = draws({2, 1, keys, 4}, 19);
  for (const Shape& shape : {Shape{queries, keys}, Shape{2, 1, 1, keys}, Shape{queries, 1},
                             Shape{2, 2, queries, keys}, Shape{keys}}) {
    Tensor a = draws(shape, 20), b = a.detach();
    a.set_requires_grad();
    b.set_requires_grad();
    const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = a}),
                 expected = scaled_dot_product_attention_composite(q, k, v, {.mask = b});
    EXPECT_LE(to_vector(max(abs(y - expected)))[0], 1e-5) << shape.rank();
    sum(y * y).backward();
    sum(expected * expected).backward();
    EXPECT_LE(to_vector(max(abs(a.grad() - b.grad())))[0], 1e-4) << shape.rank();
    const Tensor hides = less_equal(a.detach(), full({}, 0, DType::f32));
    EXPECT_LE(
        to_vector(max(abs(scaled_dot_product_attention(q, k, v, {.mask = hides}) -
                          scaled_dot_product_attention_composite(q, k, v, {.mask = hides}))))[0],
        1e-5)
        << shape.rank();
  }
}

// 4096 rows: their scores would be 64 MiB for each head.
TEST(ChunkedAttention, StoresTheScoresOfSomeQueriesAtATime) {
  for (const AttentionOptions& options :
       {AttentionOptions{.causal = true, .window = 256, .dropout = 0.1},
        {.causal = true, .softcap = 3, .dropout = 0.1}}) {
    Tensor x = draws({1, 4096, 3 * 8}, 21);
    x.set_requires_grad();
    memory::reset_peak();
    const int64_t before = memory::peak();
    sum(packed_attention(x, 1, 1, options)).backward();
    // A score, its gradient and some ops' results between them: a tenth of all pairs' would be
    // more.
    const int64_t seen = options.window > 0 ? options.window + 512 : 4096;
    EXPECT_LT(memory::peak() - before, int64_t{10} * 512 * seen * 4 + (int64_t{8} << 20));
  }
}

// Keys that no query of a chunk sees are not read: 0 times NaN would be NaN.
TEST(ChunkedAttention, DoesNotReadKeysOutsideOfItsWindows) {
  const Tensor q = draws({1, 1, 1100, 4}, 22), k = draws({1, 1, 1100, 4}, 23),
               v = draws({1, 1, 1100, 4}, 24);
  const Tensor poisoned = cat({full({1, 1, 100, 4}, NAN, DType::f32), slice(v, 2, 100, 1100)}, 2);
  for (const Tensor& mask : {Tensor(), zeros({1100})}) {  // the kernel, plain ops
    const AttentionOptions options{.causal = true, .window = 50, .mask = mask};
    const Tensor y = scaled_dot_product_attention(q, k, v, options),
                 beside = scaled_dot_product_attention(q, k, poisoned, options);
    EXPECT_TRUE(test::same_bits(contiguous(slice(y, 2, 512, 1100)),
                                contiguous(slice(beside, 2, 512, 1100))));
  }
}

// Neither are they in the backward: gradients of queries far from poisoned keys, and of keys far
// from poisoned queries, are those without poison.
TEST(ChunkedAttention, GradientsStayWithinWindows) {
  const Shape shape{1, 1, 1100, 4};
  const auto gradients = [&](DType dtype, bool poisoned) {
    const Tensor nan = full({1, 1, 100, 4}, NAN, dtype);
    const auto leaf = [](Tensor x) { return x.set_requires_grad(); };
    Tensor q = leaf(draws(shape, 22, dtype)), k = leaf(draws(shape, 23, dtype)),
           v = leaf(draws(shape, 24, dtype));
    if (poisoned) {
      q = leaf(cat({slice(q.detach(), 2, 0, 1000), nan}, 2));
      k = leaf(cat({nan, slice(k.detach(), 2, 100, 1100)}, 2));
    }
    const Tensor y = scaled_dot_product_attention(q, k, v, {.causal = true, .window = 50});
    sum(y * draws(shape, 25, dtype)).backward();
    std::vector<Tensor> middle;
    for (const Tensor& x : {q, k, v}) middle.push_back(contiguous(slice(x.grad(), 2, 300, 800)));
    return middle;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const std::vector<Tensor> clean = gradients(dtype, false), beside = gradients(dtype, true);
    for (size_t i = 0; i < clean.size(); ++i)
      EXPECT_TRUE(test::same_bits(clean[i], beside[i])) << name(dtype) << ' ' << i;
  }
}

// The backward draws the masks of the forward again: with v = 1, a row's result is the sum of its
// kept weights, whose gradient by v is just these weights.
TEST(ChunkedAttention, DropsTheSameWeightsInTheBackward) {
  const Tensor q = draws({1, 1, 1100, 4}, 25), k = draws({1, 1, 600, 4}, 26);
  Tensor v = ones({1, 1, 600, 1});
  v = expand(v, {1, 1, 600, 4});
  Tensor values = contiguous(v);
  values.set_requires_grad();
  random::begin_step(6, 0);
  const Tensor y = scaled_dot_product_attention(q, k, values, {.dropout = 0.4});
  sum(y).backward();
  double kept = 0, gradients = 0;
  for (const double x : to_vector(y)) kept += x;
  for (const double x : to_vector(values.grad())) gradients += x;
  EXPECT_NEAR(kept, gradients, 1e-5 * kept);
  random::begin_step(6, 0);
  EXPECT_TRUE(
      test::same_bits(y, scaled_dot_product_attention(q, k, values.detach(), {.dropout = 0.4})));
}

// Eight chunks add to the gradient of each value, which is rounded once. Leaves have f32 gradients,
// results of ops do not.
TEST(ChunkedAttention, SumsGradientsBeforeTheyAreRounded) {
  const Tensor q = draws({1, 1, 4096, 4}, 29, DType::bf16),
               k = draws({1, 1, 16, 4}, 30, DType::bf16), v = draws({1, 1, 16, 4}, 31, DType::bf16);
  const auto gradient = [&](DType dtype) {
    Tensor values = cast(v, dtype).detach();
    values.set_requires_grad();
    sum(scaled_dot_product_attention(cast(q, dtype), cast(k, dtype), neg(values),
                                     {.softcap = 5, .mask = zeros({16})}))
        .backward();
    return to_vector(values.grad());
  };
  const std::vector<double> found = gradient(DType::bf16), exact = gradient(DType::f32);
  for (size_t i = 0; i < found.size(); ++i) {
    const double half_ulp = std::ldexp(1, std::ilogb(exact[i]) - 8);
    EXPECT_LE(std::abs(found[i] - exact[i]), half_ulp + 0x1p-16 * std::abs(exact[i])) << i;
  }
}

// Recompute of a layer computes its chunks again, too.
TEST(ChunkedAttention, HasTheSameBitsInsideOfRecompute) {
  const AttentionOptions options{.causal = true, .window = 200, .dropout = 0.1};
  const auto gradient = [&](bool recompute) {
    Tensor x = draws({1, 1100, 3 * 8}, 28);
    x.set_requires_grad();
    random::begin_step(7, 0);
    const auto layer = [&](std::span<const Tensor> in) {
      return packed_attention(in[0], 1, 1, options);
    };
    const Tensor y = recompute ? checkpoint(layer, {x}) : layer({&x, 1});
    sum(y * y).backward();
    return x.grad();
  };
  EXPECT_TRUE(test::same_bits(gradient(true), gradient(false)));
}

// Without gradients to compute there is no graph.
TEST(ChunkedAttention, AsksForNoGradient) {
  const Tensor q = draws({1, 1, 1100, 4}, 27);
  EXPECT_FALSE(scaled_dot_product_attention(q, q, q, {.softcap = 2}).requires_grad());
}

}  // namespace
}  // namespace binade
