#pragma once

#include "binade/backend/attention.h"

// Attention of f32 on tensor cores, operands of the matmuls rounded to TF32 (to nearest); sums and
// softmaxes are f32, every sum in a fixed order.
namespace binade::backend::cuda::native {

// False, with nothing written, if the kernels do not support such tensors. delta [batch, heads,
// queries] holds the sums of dout * out over rows.
bool attention_forward_tf32(const AttentionForward& call);
bool attention_backward_tf32(const AttentionBackward& call, const TensorView& delta);

}  // namespace binade::backend::cuda::native
