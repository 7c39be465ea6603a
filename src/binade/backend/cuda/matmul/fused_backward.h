#pragma once

#include "binade/backend/activation.h"

// Matmuls whose epilogue is the backward of an activation, so that the gradient dy = a b is neither
// written nor read, for GPUs of compute capability 9.0: f16 and bf16, dense matrices of whole
// tiles. Same bits every time: a tile's bias sums are added in a fixed order.
namespace binade::backend::cuda {

// Both: false, with nothing written, if the kernels do not support such matrices or the active
// device.
bool fused_activation_backward(const TensorView& a, const TensorView& b,
                               const ActivationBackward& args);
bool fused_swiglu_backward(const TensorView& a, const TensorView& b, const SwiGluBackward& args);

}  // namespace binade::backend::cuda
