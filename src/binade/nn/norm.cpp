#include "binade/nn/norm.h"

#include "binade/nn/init.h"
#include "binade/ops/norm.h"

namespace binade::nn {
namespace {

void require_positive(const char* module, int64_t width) {
  if (width < 1)
    fail(module, {.argument = "width", .expected = "at least 1", .found = std::to_string(width)});
}

}  // namespace

LayerNorm::LayerNorm(int64_t width, double eps, bool with_bias, Placement placement) : eps(eps) {
  require_positive("LayerNorm", width);
  weight = init::constant({width}, 1, placement);
  if (with_bias) bias = init::constant({width}, 0, placement);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, weight, bias, eps); }

std::pair<Tensor, Tensor> LayerNorm::add(const Tensor& x, const Tensor& residual) {
  const auto scope = enter();
  return residual_layer_norm(x, residual, weight, bias, eps);
}

RMSNorm::RMSNorm(int64_t width, double eps, Placement placement) : eps(eps) {
  require_positive("RMSNorm", width);
  weight = init::constant({width}, 1, placement);
  add_parameter("weight", weight);
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, weight, eps); }

std::pair<Tensor, Tensor> RMSNorm::add(const Tensor& x, const Tensor& residual) {
  const auto scope = enter();
  return residual_rms_norm(x, residual, weight, eps);
}

BatchNorm::BatchNorm(int64_t channels, double eps, double momentum, Placement placement)
    : eps(eps), momentum(momentum) {
  require_positive("BatchNorm", channels);
  weight = init::constant({channels}, 1, placement);
  bias = init::constant({channels}, 0, placement);
  running_mean = init::constant({channels}, 0, {placement.device, DType::f32});
  running_var = init::constant({channels}, 1, {placement.device, DType::f32});
  add_parameter("weight", weight);
  add_parameter("bias", bias);
  add_buffer("running_mean", running_mean);
  add_buffer("running_var", running_var);
}

Tensor BatchNorm::forward(const Tensor& x) {
  return batch_norm(x, weight, bias, running_mean, running_var, training(), momentum, eps);
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, Placement placement)
    : groups(groups), eps(eps) {
  require_positive("GroupNorm", channels);
  weight = init::constant({channels}, 1, placement);
  bias = init::constant({channels}, 0, placement);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, groups, weight, bias, eps); }

}  // namespace binade::nn
