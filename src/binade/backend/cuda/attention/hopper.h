#pragma once

#include "binade/backend/attention.h"

// Attention for GPUs of compute capability 9.0: f16 and bf16, heads of 64 or 128 elements, as many
// queries as keys; in multiples of 128 unless within documents. Same bits every time: dq is summed
// in a fixed order.
namespace binade::backend::cuda::native {

bool attends_documents_hopper(DType dtype, int64_t dim);
// The forward within documents: call.documents is present. Fails if the kernels do not support such
// tensors.
void documents_forward_hopper(const AttentionForward& call);

// False, with nothing written, if the kernels do not support such tensors or the active device.
bool attention_backward_hopper(const AttentionBackward& call);

// Whether it supports them and computes `sums` too: for heads of 64 elements.
bool sums_gradients_hopper(const AttentionBackward& call);

}  // namespace binade::backend::cuda::native
