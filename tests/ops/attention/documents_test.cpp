// Documents and windows by kernels of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/autograd/engine.h"
#include "binade/backend/attention.h"
#include "binade/backend/gpu.h"
#include "binade/backend/graph.h"
#include "binade/backend/transfer.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/tensor/memory.h"
#include "support/tensors.h"

namespace binade::documents_test {
namespace {

struct Case {
  const char* name;
  int64_t batch, tokens, heads, kv_heads, dim;
  AttentionOptions options;

  Shape shape() const { return {batch, tokens, (heads + 2 * kv_heads) * dim}; }
  Shape out_shape() const { return {batch, tokens, heads * dim}; }
};

// Documents that end inside tiles, fill them, span several, have one token, span rows of the batch;
// windows shorter and longer than tiles and documents; rows that fill no tile.
std::vector<Case> cases() {
  const std::vector<int64_t> mixed = {0, 5, 6, 130, 256, 257, 500, 640, 768};
  return {
      {"documents", 2, 384, 2, 2, 64, {.causal = true, .documents = mixed}},
      {"grouped", 2, 384, 4, 2, 128, {.causal = true, .documents = mixed}},
      {"one head of keys", 1, 768, 3, 1, 64, {.causal = true, .documents = mixed}},
      {"both ways", 2, 384, 2, 1, 64, {.causal = false, .documents = mixed}},
      {"both ways, wide", 2, 384, 2, 1, 128, {.causal = false, .documents = {0, 300, 301, 768}}},
      {"short window", 2, 384, 2, 2, 64, {.causal = true, .window = 50}},
      {"window of one", 1, 256, 2, 2, 64, {.causal = true, .window = 1}},
      {"window", 2, 640, 4, 1, 128, {.causal = true, .window = 200}},
      {"window of a tile", 1, 512, 2, 2, 64, {.causal = true, .window = 128}},
      {"window in documents",
       2,
       384,
       2,
       1,
       128,
       {.causal = true, .window = 100, .documents = {0, 90, 384, 385, 768}}},
      {"partial tile", 3, 67, 2, 2, 64, {.causal = true, .documents = {0, 60, 67, 134, 150, 201}}},
      {"partial tile, wide", 1, 333, 2, 1, 128, {.causal = true, .window = 77}},
      {"whole sequences", 3, 197, 2, 2, 64, {.causal = false}},
      {"whole causal sequences", 2, 200, 4, 2, 128, {.causal = true}},
      {"one token", 1, 1, 1, 1, 64, {.causal = true, .documents = {0, 1}}},
      {"own scale", 1, 256, 2, 2, 64, {.causal = true, .scale = 0.3, .documents = {0, 100, 256}}},
  };
}

struct Result {
  Tensor out, gradient;
};

class DocumentsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
    if (!backend::attends_documents(DType::bf16, 64, Device::cuda()))
      GTEST_SKIP() << "the GPU has no kernels for documents";
  }

  static Result run(const Case& c, const Tensor& qkv, const Tensor& seed,
                    decltype(&packed_attention) attention = packed_attention) {
    Tensor leaf = qkv.detach();
    leaf.set_requires_grad(true);
    const Tensor y = attention(leaf, c.heads, c.kv_heads, c.options);
    const Tensor outputs[] = {y}, seeds[] = {seed};
    autograd::run_backward(outputs, seeds);
    return {to(y.detach(), Device::cpu()), to(leaf.grad(), Device::cpu())};
  }
  static Result on_gpu(const Case& c, const Tensor& qkv, const Tensor& seed) {
    return run(c, to(qkv, Device::cuda()), to(seed, Device::cuda()));
  }
};

double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = test::read(a), y = test::read(b);
  double apart = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    apart += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(apart / std::max(size, 1e-30));
}

double largest_gap(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = test::read(a), y = test::read(b);
  double gap = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    gap = std::isnan(x[i]) ? INFINITY : std::max(gap, std::abs(x[i] - y[i]));
    size = std::max(size, std::abs(y[i]));
  }
  return gap / size;
}

// Probabilities and gradients of scores are rounded to the type, sums are not.
TEST_F(DocumentsGpu, FollowPlainOpsInF64) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor qkv = test::noise(c.shape(), 1, dtype),
                   seed = test::noise(c.out_shape(), 2, dtype);
      const Result found = on_gpu(c, qkv, seed);
      const Result expected =
          run(c, cast(qkv, DType::f64), cast(seed, DType::f64), packed_attention_composite);
      const std::string where = std::string(c.name) + " " + std::string(name(dtype));
      EXPECT_LT(distance(found.out, expected.out), 2 * epsilon(dtype)) << where;
      EXPECT_LT(distance(found.gradient, expected.gradient), 4 * epsilon(dtype)) << where;
      EXPECT_LT(largest_gap(found.out, expected.out), 4 * epsilon(dtype)) << where;
      EXPECT_LT(largest_gap(found.gradient, expected.gradient), 8 * epsilon(dtype)) << where;
    }
  }
}

TEST_F(DocumentsGpu, GiveTheSameBitsEveryTime) {
  for (const Case& c : cases()) {
    const Tensor qkv = test::noise(c.shape(), 3, DType::bf16),
                 seed = test::noise(c.out_shape(), 4, DType::bf16);
    const Result once = on_gpu(c, qkv, seed);
    for (int i = 0; i < 3; ++i) {
      const Result again = on_gpu(c, qkv, seed);
      EXPECT_TRUE(test::same_bits(once.out, again.out)) << c.name;
      EXPECT_TRUE(test::same_bits(once.gradient, again.gradient)) << c.name;
    }
  }
}

// As varlen_attention has them, beside heads that nobody reads.
TEST_F(DocumentsGpu, AreSequencesOfVarlenAttention) {
  for (const int64_t window : {0, 70}) {
    const SequenceOffsets offsets{{0, 100, 101, 300}};
    const AttentionOptions options{.causal = true, .window = window};
    const auto run_on = [&](Device device, DType dtype, decltype(&varlen_attention) attention) {
      std::vector<Tensor> leaves, outputs;
      for (const int64_t heads : {4, 2, 2}) {
        const Tensor all =
            to(cast(test::noise({300, heads + 1, 64}, static_cast<uint64_t>(leaves.size() + 20),
                                DType::bf16),
                    dtype),
               device);
        leaves.push_back(all.strided({300, heads, 64}, all.strides(), 0));
        leaves.back().set_requires_grad(true);
      }
      outputs.push_back(attention(leaves[0], leaves[1], leaves[2], offsets, options));
      const std::vector<Tensor> seeds = {
          to(cast(test::noise({300, 4, 64}, 30, DType::bf16), dtype), device)};
      autograd::run_backward(outputs, seeds);
      for (const Tensor& leaf : leaves) outputs.push_back(leaf.grad());
      for (Tensor& x : outputs) x = to(x.detach(), Device::cpu());
      return outputs;
    };
    const std::vector<Tensor> found = run_on(Device::cuda(), DType::bf16, varlen_attention);
    const std::vector<Tensor> expected =
        run_on(Device::cpu(), DType::f64, varlen_attention_composite);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LT(distance(found[i], expected[i]), 4 * epsilon(DType::bf16)) << i << " " << window;
  }
}

// The kernel also sums the gradient for the bias of the layer before it.
TEST_F(DocumentsGpu, GiveTheGradientOfTheBiasBeforeThem) {
  const Case c{"", 1, 300, 2, 1, 64, {.causal = true, .documents = {0, 40, 170, 300}}};
  const auto gradient = [&](Device device, DType dtype, decltype(&packed_attention) attention) {
    const auto of = [&](const Shape& shape, uint64_t stream, double factor) {
      return to(cast(cast(test::noise(shape, stream) * factor, DType::bf16), dtype), device);
    };
    Tensor x = of({1, 300, 64}, 40, 1), weight = of({256, 64}, 41, 0.125), bias = of({256}, 42, 1);
    bias.set_requires_grad(true);
    const Tensor outputs[] = {attention(linear(x, weight, bias), c.heads, c.kv_heads, c.options)};
    const Tensor seeds[] = {of(c.out_shape(), 43, 1)};
    autograd::run_backward(outputs, seeds);
    return to(bias.grad(), Device::cpu());
  };
  EXPECT_LT(distance(gradient(Device::cuda(), DType::bf16, packed_attention),
                     gradient(Device::cpu(), DType::f64, packed_attention_composite)),
            4 * epsilon(DType::bf16));
}

// Tokens `begin` .. `end` of a batch of one sequence.
Tensor part_of(const Tensor& x, int64_t begin, int64_t end) {
  return clone(x.strided({1, end - begin, x.size(2)}, x.strides(), begin * x.strides()[1]));
}

// Tiles of 128 tokens have the same tokens in the same places then.
TEST_F(DocumentsGpu, HaveTheBitsOfTheDocumentAloneIfTheyBeginATile) {
  for (const int64_t dim : {64, 128}) {
    const std::vector<int64_t> documents = {0, 384, 512, 900, 1024};
    const Case c{"all", 1, 1024, 2, 1, dim, {.causal = true, .documents = documents}};
    const Tensor qkv = test::noise(c.shape(), 5, DType::bf16),
                 seed = test::noise(c.out_shape(), 6, DType::bf16);
    const Result all = on_gpu(c, qkv, seed);
    for (size_t i = 0; i + 1 < documents.size(); ++i) {
      const int64_t begin = documents[i], end = documents[i + 1];
      if (begin % 128 != 0) continue;
      const Case one{
          "one", 1, end - begin, 2, 1, dim, {.causal = true, .documents = {0, end - begin}}};
      const Result alone = on_gpu(one, part_of(qkv, begin, end), part_of(seed, begin, end));
      EXPECT_TRUE(test::same_bits(part_of(all.out, begin, end), alone.out)) << dim << " " << i;
      EXPECT_TRUE(test::same_bits(part_of(all.gradient, begin, end), alone.gradient))
          << dim << " " << i;
    }
  }
}

// Sets elements of the tokens `begin` .. `end`.
void poison(const Tensor& x, int64_t begin, int64_t end, double value) {
  const Tensor rows =
      x.strided({end - begin, x.size(2)}, {x.strides()[1], 1}, begin * x.strides()[1]);
  fill_(rows, value);
}

bool all_finite(const Tensor& x, int64_t begin, int64_t end) {
  for (const double value : test::read(part_of(x, begin, end)))
    if (!std::isfinite(value)) return false;
  return true;
}

// NaN or infinity in the activations, the gradient, or both, of a document among others in tiles.
TEST_F(DocumentsGpu, KeepNanToThemselves) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const int64_t dim : {64, 128}) {
    const std::vector<int64_t> documents = {0, 37, 150, 200, 300};
    const Case c{"", 1, 300, 2, 1, dim, {.causal = true, .documents = documents}};
    const Tensor qkv = test::noise(c.shape(), 7, DType::bf16),
                 seed = test::noise(c.out_shape(), 8, DType::bf16);
    const Result clean = on_gpu(c, qkv, seed);
    for (const double value : {double{NAN}, inf, -inf}) {
      for (const int which : {1, 2, 3}) {
        const Tensor bad_qkv = clone(qkv), bad_seed = clone(seed);
        if (which & 1) poison(bad_qkv, 37, 150, value);
        if (which & 2) poison(bad_seed, 37, 150, value);
        const Result found = on_gpu(c, bad_qkv, bad_seed);
        const std::string where =
            std::to_string(dim) + " " + std::to_string(value) + " " + std::to_string(which);
        for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 37}, {150, 300}}) {
          EXPECT_LT(largest_gap(part_of(found.out, begin, end), part_of(clean.out, begin, end)),
                    0.02)
              << where;
          EXPECT_LT(
              largest_gap(part_of(found.gradient, begin, end), part_of(clean.gradient, begin, end)),
              0.05)
              << where;
        }
        if (which & 1) {
          EXPECT_FALSE(all_finite(found.out, 149, 150)) << where;
        }
        EXPECT_FALSE(all_finite(found.gradient, 37, 38)) << where;
      }
    }
  }
}

// No query sees a key before its window or after itself, even in the same tile.
TEST_F(DocumentsGpu, SeeNoPoisonOutsideTheirWindow) {
  for (const int64_t dim : {64, 128}) {
    const Case c{"", 1, 400, 2, 2, dim, {.causal = true, .window = 60}};
    const Tensor qkv = test::noise(c.shape(), 9, DType::bf16),
                 seed = test::noise(c.out_shape(), 10, DType::bf16);
    const Result clean = on_gpu(c, qkv, seed);
    const Tensor bad = clone(qkv);
    poison(bad, 200, 201, NAN);
    const Result found = on_gpu(c, bad, seed);
    EXPECT_LT(largest_gap(part_of(found.out, 0, 200), part_of(clean.out, 0, 200)), 0.02);
    EXPECT_LT(largest_gap(part_of(found.out, 260, 400), part_of(clean.out, 260, 400)), 0.02);
    EXPECT_FALSE(all_finite(found.out, 200, 201));
    EXPECT_FALSE(all_finite(found.out, 259, 260));
    // Keys of queries that saw it are not clean; those of others are.
    EXPECT_TRUE(all_finite(found.gradient, 0, 141));
    EXPECT_TRUE(all_finite(found.gradient, 320, 400));
  }
}

// Bounds are read when the captured work runs.
TEST_F(DocumentsGpu, AreReplayedWithOtherBounds) {
  Case c{"", 2, 200, 2, 1, 64, {.causal = true}};
  const Tensor qkv = to(test::noise(c.shape(), 11, DType::bf16), Device::cuda());
  const Tensor seed = to(test::noise(c.out_shape(), 12, DType::bf16), Device::cuda());
  const std::vector<int64_t> first = {0, 10, 200, 400}, second = {0, 130, 140, 300, 400};
  const Tensor bounds = to(document_bounds(first), Device::cuda());
  c.options.bounds = bounds;
  const auto work = [&]() -> std::pair<Tensor, Tensor> {
    Tensor leaf = qkv.detach();
    leaf.set_requires_grad(true);
    const Tensor y = packed_attention(leaf, c.heads, c.kv_heads, c.options);
    const Tensor outputs[] = {y}, seeds[] = {seed};
    autograd::run_backward(outputs, seeds);
    return {y.detach(), leaf.grad()};
  };
  work();
  backend::Graph graph;
  std::pair<Tensor, Tensor> captured;
  graph.capture(Device::cuda(), [&] { captured = work(); });
  for (const std::vector<int64_t>& documents : {first, second, first}) {
    backend::transfer(document_bounds(documents), bounds);
    graph.replay();
    Case eager = c;
    eager.options.bounds = {};
    eager.options.documents = documents;
    const Result expected = run(eager, qkv, seed);
    EXPECT_TRUE(test::same_bits(to(captured.first, Device::cpu()), expected.out));
    EXPECT_TRUE(test::same_bits(to(captured.second, Device::cpu()), expected.gradient));
  }
}

// Memory grows with the number of tokens.
TEST_F(DocumentsGpu, StoreNoScores) {
  const Case c{"", 1, 16384, 2, 2, 64, {.causal = true, .window = 512}};
  const Tensor qkv = to(test::noise(c.shape(), 13, DType::bf16), Device::cuda());
  memory::reset_peak(Device::cuda());
  const int64_t before = memory::statistics(Device::cuda()).peak;
  packed_attention(qkv, 2, 2, c.options);
  const int64_t more = memory::statistics(Device::cuda()).peak - before;
  EXPECT_LT(more, 2 * qkv.numel() * 2);  // the scores would take 2 x 16384 x 16384 elements
}

TEST(Documents, BoundsAreThoseOfEachRow) {
  EXPECT_EQ(test::read(document_bounds({0, 2, 2, 3})), (std::vector<double>{0, 2, 1, 1, 0, 1}));
  EXPECT_EQ(document_bounds({0}).shape(), (Shape{0, 2}));
}

TEST(Documents, BoundsAloneNeedAKernel) {
  const Tensor qkv = test::noise({1, 4, 12}, 1);
  EXPECT_THROW(packed_attention(qkv, 2, 1, {.causal = true, .bounds = document_bounds({0, 1, 4})}),
               Error);
  EXPECT_THROW(packed_attention(
                   qkv, 2, 1,
                   {.causal = true, .documents = {0, 1, 4}, .bounds = document_bounds({0, 1, 3})}),
               Error);
}

}  // namespace
}  // namespace binade::documents_test
