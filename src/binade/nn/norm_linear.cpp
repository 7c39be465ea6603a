#include "binade/nn/norm_linear.h"

#include "binade/ops/quantized/fused.h"

namespace binade::nn {

NormLinear::NormLinear(const NormLinearConfig& config, Placement placement)
    : norm_(make_norm(config.norm, config.linear.in, config.eps, placement)),
      linear_(config.linear, placement) {
  add_child("norm", *norm_);
  add_child("linear", linear_);
}

Tensor NormLinear::forward(const Tensor& x) {
  if (const std::optional<QuantizedLayer> layer = linear_.fused_consumer()) {
    if (const std::optional<FusedNorm> norm = norm_->fused_producer(x))
      return quantized_norm_linear(*norm, *layer).second;
  }
  return linear_((*norm_)(x));
}

NormMLP::NormMLP(const NormMLPConfig& config, Placement placement)
    : norm_(make_norm(config.norm, config.mlp.width, config.eps, placement)),
      mlp_(config.mlp, placement) {
  add_child("norm", *norm_);
  add_child("mlp", mlp_);
}

Tensor NormMLP::forward(const Tensor& x) {
  if (const std::optional<FusedNorm> norm = norm_->fused_producer(x)) {
    if (const auto fused = mlp_.after_norm(*norm)) return fused->second;
  }
  return mlp_((*norm_)(x));
}

}  // namespace binade::nn
