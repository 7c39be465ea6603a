#include "binade/nn/norm_linear.h"

#include "binade/nn/fp8_fusion.h"

namespace binade::nn {

NormLinear::NormLinear(const NormLinearConfig& config, Placement placement)
    : norm_(make_norm(config.norm, config.linear.in, config.eps, placement)),
      linear_(config.linear, placement) {
  add_child("norm", *norm_);
  add_child("linear", linear_);
}

Tensor NormLinear::forward(const Tensor& x) {
  if (const std::optional<Fp8Layer> layer = Fp8Fusion::layer(linear_)) {
    if (const std::optional<Fp8Norm> norm = Fp8Fusion::norm(*norm_, x))
      return fp8_norm_linear(*norm, *layer).second;
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
  if (const std::optional<Fp8Norm> norm = Fp8Fusion::norm(*norm_, x)) {
    if (const auto fused = Fp8Fusion::after_norm(*norm, mlp_)) return fused->second;
  }
  return mlp_((*norm_)(x));
}

}  // namespace binade::nn
