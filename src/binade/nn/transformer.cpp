#include "binade/nn/transformer.h"

#include "binade/ops/activation.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/attention.h"
#include "binade/ops/shape.h"

namespace binade::nn {
namespace {

AttentionConfig completed(AttentionConfig config) {
  if (config.heads < 1 || config.width < 1) {
    fail("MultiheadAttention",
         {.argument = "width, heads",
          .expected = "at least 1",
          .found = std::to_string(config.width) + ", " + std::to_string(config.heads)});
  }
  if (config.kv_heads < 0 || config.head_dim < 0) {
    fail("MultiheadAttention",
         {.argument = "kv_heads, head_dim",
          .expected = "at least 0",
          .found = std::to_string(config.kv_heads) + ", " + std::to_string(config.head_dim)});
  }
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0 && config.width % config.heads != 0) {
    fail("MultiheadAttention",
         {.argument = "heads",
          .expected = "a divisor of the width " + std::to_string(config.width),
          .found = std::to_string(config.heads)});
  }
  if (config.head_dim == 0) config.head_dim = config.width / config.heads;
  if (config.heads % config.kv_heads != 0) {
    fail("MultiheadAttention", {.argument = "kv_heads",
                                .expected = "a divisor of " + std::to_string(config.heads),
                                .found = std::to_string(config.kv_heads)});
  }
  return config;
}

LinearConfig qkv_config(const AttentionConfig& given) {
  const AttentionConfig config = completed(given);
  return {.in = config.width,
          .out = (config.heads + 2 * config.kv_heads) * config.head_dim,
          .bias = config.bias,
          .deviation = config.deviation};
}

LinearConfig out_config(const AttentionConfig& given) {
  const AttentionConfig config = completed(given);
  return {.in = config.heads * config.head_dim,
          .out = config.width,
          .bias = config.bias,
          .deviation = config.out_deviation};
}

}  // namespace

MultiheadAttention::MultiheadAttention(const AttentionConfig& config, Placement placement)
    : qkv(qkv_config(config), placement),
      out(out_config(config), placement),
      dropout_(config.dropout) {
  const AttentionConfig full = completed(config);
  heads_ = full.heads;
  kv_heads_ = full.kv_heads;
  head_dim_ = full.head_dim;
  causal_ = full.causal;
  add_child("qkv", qkv);
  add_child("out", out);
  add_child("dropout", dropout_);
}

void MultiheadAttention::set_rope(const Tensor& cosine, const Tensor& sine) {
  cosine_ = cosine;
  sine_ = sine;
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  if (x.rank() != 3)
    fail("MultiheadAttention",
         {.argument = "x", .expected = "[batch, tokens, width]", .found = describe(x)});
  Tensor packed = qkv(x);
  if (cosine_.defined()) {
    const int64_t parts = heads_ + 2 * kv_heads_;
    const Tensor heads = reshape(packed, {x.size(0), x.size(1), parts, head_dim_});
    packed = reshape(rope(heads, cosine_, sine_, 0, heads_ + kv_heads_), packed.shape());
  }
  return dropout_(
      out(packed_attention(packed, heads_, kv_heads_, {.causal = causal_, .scale = {}})));
}

MLP::MLP(const MLPConfig& config, Placement placement)
    : up({.in = config.width,
          .out = config.gated ? 2 * config.hidden : config.hidden,
          .bias = config.bias,
          .activation = config.gated ? Activation::none : config.activation,
          .deviation = config.deviation},
         placement),
      down({.in = config.hidden,
            .out = config.width,
            .bias = config.bias,
            .deviation = config.out_deviation},
           placement),
      gated_(config.gated),
      dropout_(config.dropout) {
  add_child("up", up);
  add_child("down", down);
  add_child("dropout", dropout_);
}

Tensor MLP::forward(const Tensor& x) {
  const Tensor hidden = up(x);
  return dropout_(down(gated_ ? swiglu(hidden) : hidden));
}

TransformerBlock::TransformerBlock(const BlockConfig& config, Placement placement)
    : attention(config.attention, placement), mlp(config.mlp, placement) {
  const char* names[2] = {"norm1", "norm2"};
  for (int i = 0; i < 2; ++i) {
    if (config.norm == NormType::layer) {
      layer_norms_[i] =
          std::make_unique<LayerNorm>(config.attention.width, config.eps, true, placement);
      add_child(names[i], *layer_norms_[i]);
    } else {
      rms_norms_[i] = std::make_unique<RMSNorm>(config.attention.width, config.eps, placement);
      add_child(names[i], *rms_norms_[i]);
    }
    if (i == 0) add_child("attention", attention);
  }
  add_child("mlp", mlp);
}

std::pair<Tensor, Tensor> TransformerBlock::add_norm(int which, const Tensor& branch,
                                                     const Tensor& residual) {
  return layer_norms_[which] ? layer_norms_[which]->add(branch, residual)
                             : rms_norms_[which]->add(branch, residual);
}

std::pair<Tensor, Tensor> TransformerBlock::forward(const Tensor& branch, const Tensor& residual) {
  const auto scope = enter();
  const auto [before, normed] = add_norm(0, branch, residual);
  const auto [between, normed_again] = add_norm(1, attention(normed), before);
  return {mlp(normed_again), between};
}

Tensor TransformerBlock::operator()(const Tensor& x) {
  const auto [branch, residual] = forward(x, {});
  return residual + branch;
}

}  // namespace binade::nn
