#pragma once

#include <span>

#include "binade/tensor/tensor.h"

// Norms and scaling of many gradients at once: entries of OptimizerKernels.
namespace binade::backend::cuda {

void gradient_norm(std::span<const TensorView> gradients, double p, TensorView norm,
                   TensorView found_inf);
void gradient_norm_parts(std::span<const TensorView> gradients, TensorView parts,
                         TensorView found_inf);
void join_norm_parts(TensorView parts, TensorView norm);
void unscale(std::span<const TensorView> gradients, TensorView factor, TensorView found_inf,
             TensorView first_bad);
void clip_factor(TensorView norm, double max_norm, TensorView factor);

}  // namespace binade::backend::cuda
