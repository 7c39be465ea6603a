#pragma once

#include "binade/backend/attention.h"
#include "binade/backend/cuda/common/fused_kernel.h"

// Attention for GPUs of compute capability 9.0: f16 and bf16, heads of 64 or 128 elements, as many
// queries as keys; in multiples of 128 unless within documents. Same bits every time: dq is summed
// in a fixed order.
namespace binade::backend::cuda::native {

// Within documents only.
extern const FusedKernel<AttentionForward> hopper_forward;
extern const FusedKernel<AttentionBackward> hopper_backward;

// Whether hopper_forward takes such heads, if their rows are multiples of 16 bytes apart.
bool attends_documents_hopper(DType dtype, int64_t dim);
// Whether hopper_backward takes these arguments and computes `sums` too: for heads of 64 elements.
bool sums_gradients_hopper(const AttentionBackward& call);

}  // namespace binade::backend::cuda::native
