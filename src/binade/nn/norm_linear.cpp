#include "binade/nn/norm_linear.h"

namespace binade::nn {
namespace {

std::unique_ptr<Layer> make_norm(NormType type, int64_t width, double eps, Placement placement) {
  if (type == NormType::layer) return std::make_unique<LayerNorm>(width, eps, true, placement);
  return std::make_unique<RMSNorm>(width, eps, placement);
}

}  // namespace

NormLinear::NormLinear(const NormLinearConfig& config, Placement placement)
    : norm_(make_norm(config.norm, config.linear.in, config.eps, placement)),
      linear_(config.linear, placement) {
  add_child("norm", *norm_);
  add_child("linear", linear_);
}

Tensor NormLinear::forward(const Tensor& x) { return linear_((*norm_)(x)); }

NormMLP::NormMLP(const NormMLPConfig& config, Placement placement)
    : norm_(make_norm(config.norm, config.mlp.width, config.eps, placement)),
      mlp_(config.mlp, placement) {
  add_child("norm", *norm_);
  add_child("mlp", mlp_);
}

Tensor NormMLP::forward(const Tensor& x) { return mlp_((*norm_)(x)); }

}  // namespace binade::nn
