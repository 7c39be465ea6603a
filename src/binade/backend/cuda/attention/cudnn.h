#pragma once

#include "binade/backend/attention.h"

// Attention by cuDNN: f16 and bf16, deterministic, any strides without copies.
namespace binade::backend::cuda::cudnn {

// AttentionKernels' forward and backward. False, with nothing written, if cuDNN does not support
// such tensors on the active device.
bool attention_forward(const AttentionForward& call);
bool attention_backward(const AttentionBackward& call);

}  // namespace binade::backend::cuda::cudnn
