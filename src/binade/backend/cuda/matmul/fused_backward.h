#pragma once

#include "binade/backend/activation.h"
#include "binade/backend/cuda/common/fused_kernel.h"

// Matmuls whose epilogue is the backward of an activation, so that the gradient dy = a b is neither
// written nor read, for GPUs of compute capability 9.0: f16 and bf16, dense matrices of whole
// tiles. Same bits every time: a tile's bias sums are added in a fixed order.
namespace binade::backend::cuda {

// The backward of an activation at dy = a b.
template <class Backward>
struct MatmulBefore {
  TensorView a, b;
  const Backward& backward;
};

extern const FusedKernel<MatmulBefore<ActivationBackward>> fused_activation_backward;
extern const FusedKernel<MatmulBefore<SwiGluBackward>> fused_swiglu_backward;

}  // namespace binade::backend::cuda
