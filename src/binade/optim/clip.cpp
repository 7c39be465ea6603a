#include "binade/optim/clip.h"

#include <fmt/format.h>

#include "binade/amp/grad_scaler.h"
#include "binade/backend/backend.h"

namespace binade::optim {
namespace {

std::vector<TensorView> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<TensorView> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

Device device_of(const std::vector<Tensor>& parameters) {
  return parameters.empty() ? Device::cpu() : parameters[0].device();
}

}  // namespace

Tensor grad_norm(const std::vector<Tensor>& parameters, double p) {
  if (!(p > 0))
    fail("grad_norm", {.argument = "p", .expected = "more than 0", .found = fmt::format("{}", p)});
  const Tensor norm = Tensor::empty({1}, DType::f32, device_of(parameters));
  backend::of(norm).optimizer.gradient_norm(gradients_of(parameters), p, norm, {});
  return norm;
}

Clip clip(const std::vector<Tensor>& parameters, double max_norm) {
  const Tensor found_inf = Tensor::empty({1}, DType::f32, device_of(parameters));
  Clip result{Tensor::empty_like(found_inf), {}, found_inf};
  const auto& kernels = backend::of(found_inf);
  kernels.elementwise.fill(found_inf, 0);
  kernels.optimizer.gradient_norm(gradients_of(parameters), 2, result.norm, found_inf);
  if (max_norm > 0) {
    result.factor = Tensor::empty_like(found_inf);
    kernels.optimizer.clip_factor(result.norm, max_norm, result.factor);
  }
  return result;
}

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double p) {
  if (!(max_norm >= 0))
    fail("clip_grad_norm",
         {.argument = "max_norm", .expected = "at least 0", .found = fmt::format("{}", max_norm)});
  const Tensor norm = grad_norm(parameters, p);
  const Tensor factor = Tensor::empty_like(norm);
  const auto& kernels = backend::of(norm);
  kernels.optimizer.clip_factor(norm, max_norm, factor);
  amp::note_clipped(parameters);
  kernels.optimizer.unscale(gradients_of(parameters), factor, {}, {});
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& parameters, double limit) {
  if (!(limit >= 0))
    fail("clip_grad_value",
         {.argument = "limit", .expected = "at least 0", .found = fmt::format("{}", limit)});
  amp::note_clipped(parameters);
  for (const TensorView& gradient : gradients_of(parameters)) {
    backend::of(device_of(parameters))
        .elementwise.unary(backend::Unary::clamp, {-limit, limit}, gradient, gradient);
  }
}

}  // namespace binade::optim
