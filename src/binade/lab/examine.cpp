#include "binade/lab/examine.h"

#include <algorithm>
#include <cmath>

#include "binade/lab/fault.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/optim/clip.h"

namespace binade::lab {
namespace {

// No loss scale of use is below: f16's smallest number is 2^-24.
constexpr int smallest_exponent = -24;

std::vector<Tensor> tensors_of(const NamedTensors& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

// The norm of finite gradients may still overflow f32.
std::optional<Finding> overflowing_norm(const NamedTensors& parameters, double scale) {
  const double norm = optim::grad_norm(tensors_of(parameters)).item() / scale;
  if (std::isfinite(norm)) return {};
  return Finding{.op = "grad_norm",
                 .direction = Direction::optimizer,
                 .origin = Origin::update,
                 .tensor = "norm of all gradients",
                 .first = {.index = {0}, .value = norm, .count = 1},
                 .scale = scale};
}

// The loss times the scale, as the loss scaler computes it, may overflow by itself.
Finding overflowing_scale(const Tensor& loss, double value, double scale) {
  return {.op = "scale",
          .direction = Direction::backward,
          .origin = Origin::op,
          .tensor = "loss x scale " + std::string(name(loss.dtype())),
          .dtype = loss.dtype(),
          .first = {.index = {}, .value = value, .count = 1},
          .largest_input = std::abs(loss.item()),
          .scale = scale};
}

}  // namespace

std::optional<Finding> examine(const DiagnosisInput& input, const Replay& replay, double scale) {
  const NamedTensors parameters = input.parameters(replay);
  const auto zero_grads = [&parameters] {
    for (const auto& [name, parameter] : parameters) parameter.zero_grad();
  };
  zero_grads();
  FaultFinder finder(parameters, scale, input.buffers ? input.buffers(replay) : NamedTensors());
  const autograd::OpObserverScope scope(&finder);
  Tensor loss = input.loss(replay);
  if (const Finding* found = finder.origin(loss)) return *found;
  if (!loss.requires_grad()) return {};
  const amp::Autocast off(amp::disabled_autocast());
  if (scale != 1) {
    const Tensor scaled = loss * scale;
    if (const double value = scaled.item(); !std::isfinite(value))
      return overflowing_scale(loss, value, scale);
    loss = scaled;
  }
  loss.backward();
  const Finding* found = finder.gradient_origin();
  std::optional<Finding> result =
      found != nullptr ? std::optional(*found) : overflowing_norm(parameters, scale);
  zero_grads();
  return result;
}

std::optional<Finding> find_overflow(const DiagnosisInput& input, const Replay& replay) {
  FaultFinder finder(input.parameters(replay), input.scale,
                     input.buffers ? input.buffers(replay) : NamedTensors());
  const autograd::OpObserverScope scope(&finder);
  const Tensor loss = input.loss(replay);
  const Finding* found = finder.first_overflow();
  return found == nullptr ? std::nullopt : std::optional(*found);
}

double largest_scale(const DiagnosisInput& input, const Replay& replay, double scale) {
  const auto finite_at = [&](int exponent) {
    return !examine(input, replay, std::ldexp(1.0, exponent));
  };
  int good = smallest_exponent, bad = static_cast<int>(std::ceil(std::log2(scale)));
  if (bad <= good || !finite_at(good)) return 0;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (finite_at(middle) ? good : bad) = middle;
  }
  return std::ldexp(1.0, good);
}

}  // namespace binade::lab
