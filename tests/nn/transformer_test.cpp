#include "binade/nn/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "binade/binade.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  const std::vector<double> x = to_vector(found), y = to_vector(expected);
  ASSERT_EQ(x.size(), y.size());
  double scale = 0;
  for (const double value : y) scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance * scale) << i;
}

// The same by plain ops on separate q, k and v.
Tensor composite_attention(const MultiheadAttention& layer, const Tensor& x, int64_t heads,
                           int64_t kv_heads, bool causal) {
  const int64_t dim = layer.qkv.weight.size(0) / (heads + 2 * kv_heads), batch = x.size(0),
                tokens = x.size(1);
  const Tensor packed = linear_composite(x, layer.qkv.weight, layer.qkv.bias);
  const std::vector<Tensor> parts =
      split(packed, std::vector<int64_t>{heads * dim, kv_heads * dim, kv_heads * dim}, -1);
  const auto by_head = [&](const Tensor& part, int64_t count) {
    return permute(reshape(part, {batch, tokens, count, dim}), {0, 2, 1, 3});
  };
  const Tensor y = scaled_dot_product_attention_composite(
      by_head(parts[0], heads), by_head(parts[1], kv_heads), by_head(parts[2], kv_heads),
      {.causal = causal, .scale = {}});
  return linear_composite(reshape(permute(y, {0, 2, 1, 3}), {batch, tokens, heads * dim}),
                          layer.out.weight, layer.out.bias);
}

TEST(MultiheadAttention, EqualsItsComposite) {
  struct Case {
    int64_t heads, kv_heads;
    bool causal, bias;
  };
  for (const Case& c : {Case{4, 4, true, true}, Case{4, 2, true, false}, Case{6, 1, false, true},
                        Case{1, 1, false, false}}) {
    MultiheadAttention layer({.width = 24,
                              .heads = c.heads,
                              .kv_heads = c.kv_heads,
                              .bias = c.bias,
                              .causal = c.causal,
                              .deviation = 0.3,
                              .out_deviation = 0.3});
    Tensor x = randn({2, 7, 24}, {1, 2});
    x.set_requires_grad();
    const Tensor dy = randn({2, 7, 24}, {1, 3});
    const Tensor y = layer(x);
    y.backward(dy);
    std::vector<Tensor> gradients = {clone(x.grad())};
    for (const Tensor& parameter : layer.parameters()) gradients.push_back(clone(parameter.grad()));
    x.zero_grad();
    layer.zero_grad();
    const Tensor expected = composite_attention(layer, x, c.heads, c.kv_heads, c.causal);
    expected.backward(dy);
    constexpr double tolerance = 32 * 0x1p-23;
    expect_near(y, expected, tolerance);
    expect_near(gradients[0], x.grad(), tolerance);
    size_t i = 1;
    for (const Tensor& parameter : layer.parameters())
      expect_near(gradients[i++], parameter.grad(), tolerance);
  }
}

TEST(MultiheadAttention, CausalAttentionDoesNotSeeTheFuture) {
  MultiheadAttention layer({.width = 8, .heads = 2, .deviation = 0.5, .out_deviation = 0.5});
  const Tensor x = randn({1, 6, 8}, {1, 2});
  Tensor changed = clone(x);
  for (int64_t i = 0; i < 8; ++i) changed.mutable_data<float>()[5 * 8 + i] += 1;
  const std::vector<double> a = to_vector(layer(x)), b = to_vector(layer(changed));
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 40, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 40, a.end(), b.begin() + 40));
}

TEST(MultiheadAttention, RefusesHeadsThatDoNotDivide) {
  EXPECT_THAT(test::error_of([] { MultiheadAttention({.width = 10, .heads = 3}); }),
              HasSubstr("a divisor of the width 10, found 3"));
  EXPECT_THAT(test::error_of([] { MultiheadAttention({.width = 12, .heads = 4, .kv_heads = 3}); }),
              HasSubstr("a divisor of 4, found 3"));
  EXPECT_THROW(MultiheadAttention({.width = 12, .heads = 0}), Error);
  EXPECT_THROW(MultiheadAttention({.width = 12, .heads = 4, .kv_heads = -2}), Error);
  EXPECT_THROW(MultiheadAttention({.width = 12, .heads = 4, .head_dim = -3}), Error);
  MultiheadAttention layer({.width = 8, .heads = 2});
  EXPECT_THAT(test::error_of([&] {
                layer(randn({6, 8}, random::Key{}));
              }),
              HasSubstr("[batch, tokens, width]"));
}

TEST(MLP, IsTwoProductsAroundAnActivation) {
  MLP plain({.width = 6, .hidden = 10, .deviation = 0.4, .out_deviation = 0.4});
  MLP gated({.width = 6,
             .hidden = 10,
             .gated = true,
             .bias = false,
             .deviation = 0.4,
             .out_deviation = 0.4});
  const Tensor x = randn({3, 6}, {1, 2});
  const Tensor hidden = gelu(linear(x, plain.up.weight, plain.up.bias), Gelu::tanh);
  expect_near(plain(x), linear(hidden, plain.down.weight, plain.down.bias), 16 * 0x1p-23);
  EXPECT_EQ(gated.up.weight.shape(), (Shape{20, 6}));
  const std::vector<Tensor> halves = split(linear(x, gated.up.weight), 10, -1);
  expect_near(gated(x), linear(silu(halves[0]) * halves[1], gated.down.weight), 16 * 0x1p-23);
}

TEST(TransformerBlock, AddsBothBranches) {
  for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
    TransformerBlock block(
        {.attention = {.width = 8, .heads = 2}, .mlp = {.width = 8, .hidden = 16}, .norm = norm});
    std::vector<std::string> names;
    for (const auto& [name, parameter] : block.named_parameters()) names.push_back(name);
    EXPECT_EQ(names.front(), "norm1.weight");
    const StateDict state = block.state_dict();
    const auto normed = [&](const Tensor& x, const std::string& name) {
      const Tensor weight = state.at(name + ".weight");
      return norm == NormKind::layer ? layer_norm(x, weight, state.at(name + ".bias"))
                                     : rms_norm(x, weight);
    };
    const Tensor x = randn({2, 5, 8}, {1, 2});
    const Tensor between = x + block.attention(normed(x, "norm1"));
    expect_near(block(x), between + block.mlp(normed(between, "norm2")), 8 * 0x1p-23);
  }
}

}  // namespace
}  // namespace binade::nn
