#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::optim {

// The p-norm of all gradients as one vector: f32 [1] on the parameters' device. p may be infinite.
// Parameters without a gradient are ignored.
Tensor grad_norm(const std::vector<Tensor>& parameters, double p = 2);

// The result of a pass that changes no gradient, for a step that applies the clip factor itself
// (amp::StepControl). All are f32 [1] on the parameters' device.
struct Clip {
  Tensor norm;       // the 2-norm of all gradients
  Tensor factor;     // scales them to a norm of at most max_norm; undefined if that is 0
  Tensor found_inf;  // 1 if an element is non-finite, else 0
};
Clip clip(const std::vector<Tensor>& parameters, double max_norm);

// Scales all gradients so that their norm is at most max_norm; returns the norm before. A
// non-finite norm makes them NaN, as in PyTorch: use a loss scaler to skip such steps.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double p = 2);

// Limits every element to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& parameters, double limit);

}  // namespace binade::optim
