#include "binade/nn/norm.h"

#include "binade/autograd/recompute.h"
#include "binade/nn/init.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/quantized/fused.h"

namespace binade::nn {
namespace {

void require_positive(const char* module, int64_t width) {
  if (width < 1)
    fail(module, {.argument = "width", .expected = "at least 1", .found = std::to_string(width)});
}

}  // namespace

RowNorm::RowNorm(const Shape& shape, Placement placement)
    : eps(shape.eps), kind_(shape.kind), weight_kind_(shape.weight) {
  require_positive(kind_ == NormKind::layer ? "LayerNorm" : "RMSNorm", shape.width);
  weight = init::constant({shape.width}, weight_kind_ == NormWeight::plain ? 1 : 0, placement);
  if (shape.bias) bias = init::constant({shape.width}, 0, placement);
  add_parameter("weight", weight);
  if (kind_ == NormKind::layer) add_parameter("bias", bias);
}

// In f32, since 1 + weight would lose most of a 16-bit weight's digits.
Tensor RowNorm::gain() const {
  return weight_kind_ == NormWeight::plain
             ? weight
             : cast(weight, promote(weight.dtype(), DType::f32)) + 1.0;
}

std::string RowNorm::description() const {
  return (kind_ == NormKind::layer ? "LayerNorm(" : "RMSNorm(") + std::to_string(weight.numel()) +
         ")";
}

Tensor RowNorm::forward(const Tensor& x) {
  return kind_ == NormKind::layer ? layer_norm(x, weight, bias, eps) : rms_norm(x, gain(), eps);
}

std::optional<FusedNorm> RowNorm::fused_producer(const Tensor& x) const {
  if (has_hooks()) return std::nullopt;
  const auto scope = enter();
  return fused_norm(kind_, x, gain(), bias, eps);
}

std::optional<FusedNorm> RowNorm::fused_producer(const Tensor& x, const Tensor& residual) const {
  const auto scope = enter();
  return fused_residual_norm(kind_, x, residual, gain(), bias, eps);
}

std::pair<Tensor, Tensor> RowNorm::add(const Tensor& x, const Tensor& residual) const {
  const auto scope = enter();
  return kind_ == NormKind::layer ? residual_layer_norm(x, residual, weight, bias, eps)
                                  : residual_rms_norm(x, residual, gain(), eps);
}

std::unique_ptr<RowNorm> make_norm(NormKind kind, int64_t width, double eps, Placement placement,
                                   NormWeight weight) {
  if (kind == NormKind::layer)
    return std::make_unique<LayerNorm>(width, LayerNormOptions{.eps = eps}, placement);
  return std::make_unique<RMSNorm>(width, eps, placement, weight);
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
  add_buffer("num_batches_tracked", num_batches_tracked_);
  before_save();
}

std::string BatchNorm::description() const {
  return "BatchNorm(" + std::to_string(weight.numel()) + ")";
}

void BatchNorm::before_save() {
  num_batches_tracked_ =
      batches_ < 0 ? Tensor() : full({}, static_cast<double>(batches_), DType::i64);
}

void BatchNorm::before_load(const StateDict& state, const std::string& prefix) {
  if (const auto count = state.find(prefix + "num_batches_tracked"); count != state.end()) {
    if (count->second.defined() && count->second.numel() == 1)
      batches_ = static_cast<int64_t>(count->second.item());
  } else if (state.contains(prefix + "running_mean")) {
    batches_ = -1;
  }
}

// Counts the batch.
BatchNormOptions BatchNorm::options() {
  if (training() && !autograd::recomputing()) batches_ = batches() + 1;
  return {.training = training(), .momentum = momentum, .eps = eps};
}

Tensor BatchNorm::forward(const Tensor& x) {
  return batch_norm(x, weight, bias, running_mean, running_var, options());
}

Tensor BatchNorm::relu(const Tensor& x, const Tensor& residual) {
  if (has_hooks()) {
    const Tensor y = (*this)(x);
    return binade::relu(residual.defined() ? y + residual : y);
  }
  const auto scope = enter();
  return batch_norm_relu(x, residual, weight, bias, running_mean, running_var, options());
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, Placement placement)
    : groups(groups), eps(eps) {
  require_positive("GroupNorm", channels);
  weight = init::constant({channels}, 1, placement);
  bias = init::constant({channels}, 0, placement);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

std::string GroupNorm::description() const {
  return "GroupNorm(" + std::to_string(groups) + ", " + std::to_string(weight.numel()) + ")";
}

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, groups, weight, bias, eps); }

InstanceNorm::InstanceNorm(int64_t channels, InstanceNormOptions options, Placement placement)
    : eps(options.eps), channels_(channels) {
  require_positive("InstanceNorm", channels);
  if (options.affine) {
    weight = init::constant({channels}, 1, placement);
    bias = init::constant({channels}, 0, placement);
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}

std::string InstanceNorm::description() const {
  return "InstanceNorm(" + std::to_string(channels_) + ")";
}

Tensor InstanceNorm::forward(const Tensor& x) {
  // Without weights the op takes any number of channels.
  if (x.rank() < 2 || x.size(1) != channels_) {
    fail("InstanceNorm", {.argument = "x",
                          .expected = "[n, " + std::to_string(channels_) + ", ...]",
                          .found = describe(x)});
  }
  return instance_norm(x, weight, bias, eps);
}

}  // namespace binade::nn
