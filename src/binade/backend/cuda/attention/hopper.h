#pragma once

#include "binade/backend/attention.h"

// Attention's backward for GPUs of compute capability 9.0: f16 and bf16, heads of 64 or 128
// elements, as many queries as keys in multiples of 128. Same bits every time: dq is summed in a
// fixed order.
namespace binade::backend::cuda::native {

// False, with nothing written, if the kernels do not support such tensors or the active device.
bool attention_backward_hopper(const AttentionBackward& call);

// Whether it supports them and computes `sums` too: for heads of 64 elements.
bool sums_gradients_hopper(const AttentionBackward& call);

}  // namespace binade::backend::cuda::native
