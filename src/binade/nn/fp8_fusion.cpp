#include "binade/nn/fp8_fusion.h"

#include "binade/ops/common.h"
#include "binade/ops/elementwise/activation.h"

namespace binade::nn {

std::optional<Fp8Layer> Fp8Fusion::layer(const Linear& linear) {
  const auto scope = linear.enter();
  const amp::Fp8Recipe* recipe = amp::fp8_recipe();
  if (recipe == nullptr || !amp::can_fuse_quantize(*recipe) || linear.has_adapters() ||
      linear.has_hooks())
    return std::nullopt;
  return linear.fp8_layer(*recipe, linear.activation);
}

std::optional<Fp8Norm> Fp8Fusion::norm(const RowNorm& norm, const Tensor& x) {
  if (norm.has_hooks()) return std::nullopt;
  const auto scope = norm.enter();
  return fp8_norm(norm.kind_, x, norm.gain(), norm.bias, norm.eps);
}

std::optional<Fp8Norm> Fp8Fusion::residual_norm(const RowNorm& norm, const Tensor& x,
                                                const Tensor& residual) {
  const auto scope = norm.enter();
  return fp8_residual_norm(norm.kind_, x, residual, norm.gain(), norm.bias, norm.eps);
}

std::optional<Fp8Fusion::SumAndResult> Fp8Fusion::after_norm(const Fp8Norm& norm,
                                                             MultiheadAttention& attention) {
  if (attention.has_hooks()) return std::nullopt;
  const auto scope = attention.enter();
  const std::optional<Fp8Layer> qkv = layer(attention.qkv);
  if (!qkv || norm.x.rank() != 3) return std::nullopt;
  if (attention.only_rotates() && keeps_type(Op::rope, norm.x)) {
    const auto [sum, packed] =
        fp8_norm_linear_rope(norm, *qkv,
                             {.cosine = attention.cosine_,
                              .sine = attention.sine_,
                              .dim = attention.head_dim_,
                              .rotated = attention.heads_ + attention.kv_heads_});
    return std::pair(sum, attention.attend(packed));
  }
  const auto [sum, packed] = fp8_norm_linear(norm, *qkv);
  return std::pair(sum, attention.attend(attention.positioned(packed, 0)));
}

std::optional<Fp8Fusion::SumAndResult> Fp8Fusion::after_norm(const Fp8Norm& norm, MLP& mlp) {
  if (mlp.has_hooks()) return std::nullopt;
  const auto scope = mlp.enter();
  const std::optional<Fp8Layer> up = layer(mlp.up), down = layer(mlp.down);
  if (!up) return std::nullopt;
  if (mlp.is_swiglu() && down && keeps_type(Op::swiglu, norm.x)) {
    const auto [sum, y] = fp8_norm_swiglu_mlp(norm, *up, *down);
    return std::pair(sum, mlp.dropout_(y));
  }
  const auto [sum, hidden] = fp8_norm_linear(norm, *up);
  return std::pair(sum, mlp.dropout_(mlp.down(mlp.gated_ ? mlp.gate(hidden) : hidden)));
}

}  // namespace binade::nn
