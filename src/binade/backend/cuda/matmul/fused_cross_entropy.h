#pragma once

#include "binade/backend/loss.h"

// A linear layer's cross entropy and its gradients within the matmul, for GPUs of compute
// capability 9.0: bf16, without label smoothing. Logits are neither written nor read: the matmul's
// epilogue writes their exponentials relative to the label's, and the factors of rows normalize
// them where they are used. Same bits every time.
namespace binade::backend::cuda {

// Whether the kernels support these arguments on the active device, and have work for all of it.
bool fuses_cross_entropy(const LinearCrossEntropy& args);

// Supported arguments only.
void fused_cross_entropy(const LinearCrossEntropy& args);

}  // namespace binade::backend::cuda
