#include <gtest/gtest.h>
#include <functional>

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/autograd/engine.h"
#include "binade/backend/gpu.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/norm/norm.h"
#include "support/tensors.h"

// Fused ops beside their composites at sizes of real use: several tiles, several chunks, partial
// ends. (tests/ops/table judges both, element by element, at small sizes.)
namespace binade {
namespace {

using Outputs = std::vector<Tensor>;
using Program = std::function<Outputs(std::span<const Tensor>)>;

struct Results {
  Outputs outputs, gradients;
};

Results run(const Program& program, const std::vector<Shape>& shapes, DType dtype) {
  std::vector<Tensor> leaves;
  for (const Shape& shape : shapes)
    leaves.push_back(test::noise_leaf(shape, leaves.size() + 1, dtype));
  Results results;
  results.outputs = program(leaves);
  Outputs seeds;
  for (const Tensor& y : results.outputs)
    seeds.push_back(test::noise(y.shape(), 50 + seeds.size(), y.dtype()));
  autograd::run_backward(results.outputs, seeds);
  for (const Tensor& leaf : leaves) results.gradients.push_back(leaf.grad());
  return results;
}

double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = test::read(a), y = test::read(b);
  double apart = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    apart += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(apart / std::max(size, 1e-30));
}

// Relative to the whole result, each rounding on the way costs at most half an epsilon of the type
// it rounds to: `roundings` of the tensor's type, and of f32 one for each of `terms` that a sum
// has. Both sides make them.
double tolerance(DType dtype, int roundings, double terms) {
  return 2 * (roundings * epsilon(dtype) / 2 + terms * epsilon(DType::f32) / 2);
}

void expect_alike(const Program& fused, const Program& composite, const std::vector<Shape>& shapes,
                  int roundings, double terms) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Results a = run(fused, shapes, dtype), b = run(composite, shapes, dtype);
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      ASSERT_EQ(describe(a.outputs[i]), describe(b.outputs[i]));
      EXPECT_LE(distance(a.outputs[i], b.outputs[i]), tolerance(dtype, roundings, terms))
          << name(dtype) << " output " << i;
    }
    for (size_t i = 0; i < a.gradients.size(); ++i) {
      ASSERT_EQ(describe(a.gradients[i]), describe(b.gradients[i]));
      // The way back is the way there and as long again.
      EXPECT_LE(distance(a.gradients[i], b.gradients[i]), 2 * tolerance(dtype, roundings, terms))
          << name(dtype) << " gradient " << i;
    }
  }
}

TEST(Fused, LinearWithEveryActivation) {
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::silu}) {
    SCOPED_TRACE(static_cast<int>(activation));
    const auto fused = [=](std::span<const Tensor> x) {
      return Outputs{linear(x[0], x[1], x[2], activation)};
    };
    const auto composite = [=](std::span<const Tensor> x) {
      return Outputs{linear_composite(x[0], x[1], x[2], activation)};
    };
    // A sign of the value before the ramp may differ: a whole element's gradient then does, and
    // counts as one rounding more.
    expect_alike(fused, composite, {{3, 37, 65}, {71, 65}, {71}},
                 activation == Activation::relu ? 4 : 3, 65);
  }
}

TEST(Fused, ResidualNorms) {
  const std::vector<Shape> shapes = {{5, 67, 96}, {5, 67, 96}, {96}, {96}};
  const auto both = [](const std::pair<Tensor, Tensor>& pair) {
    return Outputs{pair.first, pair.second};
  };
  expect_alike(
      [&](std::span<const Tensor> x) { return both(residual_layer_norm(x[0], x[1], x[2], x[3])); },
      [&](std::span<const Tensor> x) {
        return both(residual_layer_norm_composite(x[0], x[1], x[2], x[3]));
      },
      shapes, 3, 335);
  expect_alike([&](std::span<const Tensor> x) { return both(residual_rms_norm(x[0], x[1], x[2])); },
               [&](std::span<const Tensor> x) {
                 return both(residual_rms_norm_composite(x[0], x[1], x[2]));
               },
               {shapes[0], shapes[1], shapes[2]}, 3, 335);
}

TEST(Fused, AttentionCausalAndGrouped) {
  for (const bool causal : {false, true}) {
    for (const int64_t kv_heads : {4, 2, 1}) {
      SCOPED_TRACE(kv_heads * 10 + causal);
      const AttentionOptions options{.causal = causal, .scale = {}};
      const std::vector<Shape> shapes = {
          {2, 4, 131, 24}, {2, kv_heads, 131, 24}, {2, kv_heads, 131, 24}};
      expect_alike(
          [=](std::span<const Tensor> x) {
            return Outputs{scaled_dot_product_attention(x[0], x[1], x[2], options)};
          },
          [=](std::span<const Tensor> x) {
            return Outputs{scaled_dot_product_attention_composite(x[0], x[1], x[2], options)};
          },
          shapes, 3, 131);
    }
  }
}

// More queries than are attended to at once: the last block is short, and with a window none reads
// all keys.
TEST(Fused, AttentionInChunks) {
  struct Case {
    int64_t queries, keys, kv_heads;
    AttentionOptions options;
  };
  const std::vector<Case> cases = {
      {1100, 1100, 2, {.causal = true, .window = 300}},
      {1100, 1100, 1, {.causal = true, .window = 700, .softcap = 2}},
      {1100, 1100, 1, {.causal = true, .window = 17}},
      {1030, 1300, 2, {.causal = true, .softcap = 1.5}},
      {1300, 600, 2, {.causal = true, .window = 90}},  // the first 700 queries see no key
      {1030, 77, 1, {.softcap = 2}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.queries * 10000 + c.keys);
    const std::vector<Shape> shapes = {
        {1, 2, c.queries, 8}, {1, c.kv_heads, c.keys, 8}, {1, c.kv_heads, c.keys, 8}};
    expect_alike(
        [&](std::span<const Tensor> x) {
          return Outputs{scaled_dot_product_attention(x[0], x[1], x[2], c.options)};
        },
        [&](std::span<const Tensor> x) {
          return Outputs{scaled_dot_product_attention_composite(x[0], x[1], x[2], c.options)};
        },
        shapes, 3, 1300);
  }
}

TEST(Fused, PackedAttention) {
  for (const int64_t kv_heads : {4, 2}) {
    const std::vector<Shape> shapes = {{2, 77, (4 + 2 * kv_heads) * 16}};
    expect_alike(
        [=](std::span<const Tensor> x) { return Outputs{packed_attention(x[0], 4, kv_heads)}; },
        [=](std::span<const Tensor> x) {
          return Outputs{packed_attention_composite(x[0], 4, kv_heads)};
        },
        shapes, 3, 77);
  }
}

TEST(Fused, RopeAndSwiglu) {
  const auto [cosine, sine] = rope_tables(80, 32);
  const auto tables = std::pair(cosine, sine);
  for (const int64_t rotated : {-1, 3, 0}) {
    expect_alike(
        [=](std::span<const Tensor> x) {
          return Outputs{rope(x[0], tables.first, tables.second, 3, rotated)};
        },
        [=](std::span<const Tensor> x) {
          return Outputs{rope_composite(x[0], tables.first, tables.second, 3, rotated)};
        },
        {{2, 77, 5, 32}}, 1, 2);
    // In place, on the result of an op that does not need it again.
    expect_alike(
        [=](std::span<const Tensor> x) {
          return Outputs{rope_(x[0] + x[0], tables.first, tables.second, 3, rotated)};
        },
        [=](std::span<const Tensor> x) {
          return Outputs{rope_composite(x[0] + x[0], tables.first, tables.second, 3, rotated)};
        },
        {{2, 77, 5, 32}}, 1, 2);
  }
  expect_alike([](std::span<const Tensor> x) { return Outputs{swiglu(x[0])}; },
               [](std::span<const Tensor> x) { return Outputs{swiglu_composite(x[0])}; },
               {{67, 190}}, 1, 16);
}

TEST(Fused, CrossEntropy) {
  const Tensor target = randint(0, 131, {67}, {1, 2});
  for (const double smoothing : {0.0, 0.1}) {
    for (const Reduce reduce : {Reduce::mean, Reduce::sum, Reduce::none}) {
      const CrossEntropyOptions options{
          .reduce = reduce, .smoothing = smoothing, .ignore_index = 7};
      expect_alike(
          [=](std::span<const Tensor> x) { return Outputs{cross_entropy(x[0], target, options)}; },
          [=](std::span<const Tensor> x) {
            return Outputs{cross_entropy_composite(x[0], target, options)};
          },
          {{67, 131}}, 1, 131);
    }
  }
}

TEST(Fused, LinearCrossEntropyInChunksOfAnySize) {
  const Tensor target = randint(0, 61, {53}, {3, 4});
  for (const int64_t chunk : {0, 1, 7, 16, 52, 53, 1000}) {
    SCOPED_TRACE(chunk);
    const CrossEntropyOptions options{.smoothing = 0.05, .ignore_index = 5};
    // Logits are about sqrt(width) in size, and what rounding does to them goes into the
    // exponential.
    expect_alike(
        [=](std::span<const Tensor> x) {
          return Outputs{linear_cross_entropy(x[0], x[1], target, options, chunk)};
        },
        [=](std::span<const Tensor> x) {
          return Outputs{linear_cross_entropy_composite(x[0], x[1], target, options)};
        },
        {{53, 24}, {61, 24}}, 2 + 5, 61);
  }
}

// GPT-2's head is worth more than its layers, and chunks cost it more than they save; Llama's is
// small, and so are its chunks. Sizes are those of the published models.
TEST(LinearCrossEntropy, ChunksOfAGpuFollowTheHeadsSize) {
  const auto rows = [](int64_t all, int64_t classes, int64_t width, bool quantized = false) {
    return logits_rows(
        all, {.classes = classes, .width = width, .dtype = DType::bf16, .quantized = quantized},
        Device::cuda());
  };
  EXPECT_EQ(rows(65536, 50304, 768), 16384);
  EXPECT_EQ(rows(16384, 32000, 2048), 5504);  // three chunks, in tiles of 128 rows
  EXPECT_EQ(rows(16384, 32000, 4096), 5504);
  EXPECT_EQ(rows(16384, 32000, 2048, true), 4096);
  EXPECT_EQ(rows(16384, 128256, 4096), 4096);
  EXPECT_EQ(rows(16384, 256, 384), 16384);  // 8 MiB of logits in all
  EXPECT_EQ(rows(0, 256, 384), 1);
  EXPECT_EQ(rows(65537, 50304, 768), 16512);
}

// Each tensor differs by at most 2^-7 of its norm, a unit of bf16.
void expect_close(const std::vector<std::vector<double>>& found,
                  const std::vector<std::vector<double>>& expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    double error = 0, norm = 0;
    for (size_t j = 0; j < found[i].size(); ++j) {
      error += std::pow(found[i][j] - expected[i][j], 2);
      norm += std::pow(expected[i][j], 2);
    }
    EXPECT_LE(std::sqrt(error), 0x1p-7 * std::sqrt(norm)) << i;
  }
}

// Chunks of enough rows that GPUs with a kernel for it compute the loss within the matmul, a last
// one that is too short for that, and classes that are no multiple of what matmuls need. Gradients
// of logits are rounded to bf16, and rows of x times their factors once more.
TEST(LinearCrossEntropyGpu, GradientsFollowTheComposite) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Device gpu = Device::cuda();
  constexpr int64_t batch = 2, length = 2866, width = 128, classes = 1283;
  const Tensor target = to(randint(-1, classes, {batch, length}, {3, 4}), gpu);
  const CrossEntropyOptions options{.ignore_index = -1};
  const auto run = [&](bool fused) {
    const Tensor x = test::noise_leaf({batch, length, width}, 1, DType::bf16, gpu),
                 weight = test::noise_leaf({classes, width}, 2, DType::bf16, gpu);
    const Tensor loss = fused ? linear_cross_entropy(x, weight, target, options, 2816)
                              : linear_cross_entropy_composite(x, weight, target, options);
    (loss * 3.0).backward();
    return std::vector{test::read(loss), test::read(x.grad()), test::read(weight.grad())};
  };
  expect_close(run(true), run(false));
}

// The gradient of qkv's bias: a GPU with a kernel for it sums columns before it rounds them. The
// definition sums the gradient that attention alone has for the same q, k and v.
TEST(PackedAttentionGpu, BiasGradientIsTheSumOfQkvs) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Device gpu = Device::cuda();
  constexpr int64_t batch = 3, tokens = 256, heads = 4, kv_heads = 2, width = 96;
  constexpr int64_t channels = (heads + 2 * kv_heads) * 64;
  const Tensor x = test::noise({batch, tokens, width}, 1, DType::bf16, gpu),
               weight = test::noise({channels, width}, 2, DType::bf16, gpu) * (1.0 / 16),
               dy = test::noise({batch, tokens, heads * 64}, 4, DType::bf16, gpu);
  const Tensor bias = test::noise_leaf({channels}, 3, DType::bf16, gpu);
  const Tensor projected = linear(x, weight, bias);
  Tensor leaf = projected.detach();
  leaf.set_requires_grad();
  packed_attention(projected, heads, kv_heads, {.causal = true}).backward(dy);
  packed_attention(leaf, heads, kv_heads, {.causal = true}).backward(dy);
  const std::vector<double> found = test::read(bias.grad()), gradient = test::read(leaf.grad());
  for (size_t c = 0; c < channels; ++c) {
    double total = 0, size = 0;
    for (size_t i = c; i < gradient.size(); i += channels) {
      total += gradient[i];
      size += std::abs(gradient[i]);
    }
    const double rounding = epsilon(DType::bf16) / 2 * (size + std::abs(total));
    EXPECT_NEAR(found[c], total, batch * tokens * epsilon(DType::f32) * size + rounding) << c;
  }
}

// Sizes for which a GPU with a kernel for it computes SwiGLU within the matmul before it.
TEST(LinearSwiGluGpu, FollowsTheComposite) {
  if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Device gpu = Device::cuda();
  const auto run = [&](bool fused) {
    const Tensor x = test::noise_leaf({2, 1408, 2048}, 1, DType::bf16, gpu),
                 bias = test::noise_leaf({3072}, 3, DType::bf16, gpu);
    Tensor weight = test::noise({3072, 2048}, 2, DType::bf16, gpu) * (1.0 / 32);
    weight = weight.detach().set_requires_grad();
    const auto activated = [&] {
      const auto [hidden, given] = linear_with_swiglu(x, weight, bias);
      return swiglu(hidden, given);
    };
    const Tensor y = fused ? activated() : swiglu_composite(linear_composite(x, weight, bias));
    y.backward(test::noise(y.shape(), 4, DType::bf16, gpu));
    return std::vector{test::read(y), test::read(x.grad()), test::read(weight.grad()),
                       test::read(bias.grad())};
  };
  expect_close(run(true), run(false));
}

// Without such a kernel the op is the plain one.
TEST(LinearSwiGlu, IsComputedFromTheResultElsewhere) {
  const Tensor x = test::noise({3, 8}, 1), weight = test::noise({12, 8}, 2);
  const auto [hidden, given] = linear_with_swiglu(x, weight);
  EXPECT_FALSE(given.defined());
  EXPECT_TRUE(test::same_bits(hidden, linear(x, weight)));
  EXPECT_TRUE(test::same_bits(swiglu(hidden, given), swiglu(hidden)));
}

// One that was computed in another type than autocast wants is not used; one of another shape is an
// error.
TEST(SwiGlu, TakesAGivenResultOfItsTypeAndShape) {
  const Tensor x = test::noise({2, 3, 8}, 1), y = swiglu(x);
  const Tensor flat = test::noise({6, 4}, 2), half = test::noise({6, 4}, 2, DType::bf16);
  EXPECT_EQ(test::read(swiglu(x, flat)), test::read(flat));
  EXPECT_TRUE(test::same_bits(swiglu(x, half), y));
  EXPECT_THROW(swiglu(x, test::noise({3, 8}, 2)), Error);
}

// Logits of the whole vocabulary never exist: the chunk decides the memory.
TEST(Fused, LinearCrossEntropyKeepsOnlyAChunkOfLogits) {
  const auto peak_of = [](bool fused) {
    const Tensor x = test::noise_leaf({512, 16}, 1), weight = test::noise_leaf({2048, 16}, 2),
                 target = zeros({512}, DType::i64);
    const int64_t before = memory::allocated();
    memory::reset_peak();
    const Tensor loss = fused ? linear_cross_entropy(x, weight, target, {}, 32)
                              : linear_cross_entropy_composite(x, weight, target);
    loss.backward();
    return memory::peak() - before;
  };
  const int64_t logits = 512 * 2048 * 4;
  EXPECT_GE(peak_of(false), logits);
  EXPECT_LE(peak_of(true), logits / 4);
}

// Under autocast the norm comes out in the low type, the sum in the residual's.
TEST(Fused, ResidualNormTypesUnderAutocast) {
  const Tensor x = test::noise_leaf({3, 8}, 1, DType::bf16), residual = test::noise_leaf({3, 8}, 2),
               weight = test::noise_leaf({8}, 3);
  const amp::Autocast cast(DType::bf16);
  const auto [sum, y] = residual_rms_norm(x, residual, weight);
  const auto [other_sum, other] = residual_rms_norm_composite(x, residual, weight);
  EXPECT_EQ(sum.dtype(), DType::f32);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(describe(other_sum), describe(sum));
  EXPECT_EQ(describe(other), describe(y));
  EXPECT_LE(distance(y, other), epsilon(DType::bf16));
}

// The products write an f32 gradient from 16-bit operands without rounding it on the way.
TEST(Fused, WeightGradientsKeepTheirDigits) {
  const Tensor x = test::noise_leaf({64, 32}, 1, DType::bf16),
               weight = test::noise_leaf({16, 32}, 2, DType::bf16);
  const Tensor y = linear(x, weight);
  const Tensor seed = test::noise(y.shape(), 3, DType::bf16);
  y.backward(seed);
  const std::vector<double> g = test::read(seed), in = test::read(x),
                            found = test::read(weight.grad());
  for (size_t o = 0; o < 16; ++o) {
    for (size_t i = 0; i < 32; ++i) {
      double expected = 0, size = 0;
      for (size_t row = 0; row < 64; ++row) {
        expected += g[row * 16 + o] * in[row * 32 + i];
        size += std::abs(g[row * 16 + o] * in[row * 32 + i]);
      }
      ASSERT_NEAR(found[o * 32 + i], expected, 64 * epsilon(DType::f32) / 2 * size);
    }
  }
}

}  // namespace
}  // namespace binade
