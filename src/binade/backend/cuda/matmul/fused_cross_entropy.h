#pragma once

#include "binade/backend/cuda/common/fused_kernel.h"
#include "binade/backend/loss.h"

// A linear layer's cross entropy and its gradients within the matmul, for GPUs of compute
// capability 9.0: bf16, without label smoothing. Logits are neither written nor read: the matmul's
// epilogue writes their exponentials relative to the label's, and the factors of rows normalize
// them where they are used. Same bits every time.
namespace binade::backend::cuda {

// Supports arguments that have work for all of the active device.
extern const FusedKernel<LinearCrossEntropy> fused_cross_entropy;

}  // namespace binade::backend::cuda
