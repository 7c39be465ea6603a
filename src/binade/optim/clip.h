#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::optim {

// The p-norm of all gradients taken as one vector, as f32 [1] on the parameters' device. p may be
// infinite. Parameters without a gradient are passed over.
Tensor grad_norm(const std::vector<Tensor>& parameters, double p = 2);

// Scales all gradients so that their norm is at most max_norm; returns the norm before. A norm that
// is not finite leaves NaNs behind, as in PyTorch: use a loss scaler to skip such steps.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double p = 2);

// Limits every element to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& parameters, double limit);

}  // namespace binade::optim
