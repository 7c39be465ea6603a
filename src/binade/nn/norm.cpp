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

RowNorm::RowNorm(const Shape& shape, Placement placement) : eps(shape.eps), kind_(shape.kind) {
  require_positive(kind_ == NormKind::layer ? "LayerNorm" : "RMSNorm", shape.width);
  weight = init::constant({shape.width}, 1, placement);
  if (shape.bias) bias = init::constant({shape.width}, 0, placement);
  add_parameter("weight", weight);
  if (kind_ == NormKind::layer) add_parameter("bias", bias);
}

Tensor RowNorm::forward(const Tensor& x) {
  return kind_ == NormKind::layer ? layer_norm(x, weight, bias, eps) : rms_norm(x, weight, eps);
}

std::pair<Tensor, Tensor> RowNorm::add(const Tensor& x, const Tensor& residual) const {
  const auto scope = enter();
  return kind_ == NormKind::layer ? residual_layer_norm(x, residual, weight, bias, eps)
                                  : residual_rms_norm(x, residual, weight, eps);
}

std::unique_ptr<RowNorm> make_norm(NormKind kind, int64_t width, double eps, Placement placement) {
  if (kind == NormKind::layer)
    return std::make_unique<LayerNorm>(width, LayerNormOptions{.eps = eps}, placement);
  return std::make_unique<RMSNorm>(width, eps, placement);
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
  return batch_norm(x, weight, bias, running_mean, running_var,
                    {.training = training(), .momentum = momentum, .eps = eps});
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
