#pragma once

#include "binade/backend/attention.h"

// Binade's own attention kernels: every compute type, any strides (the last one 1), any lengths, up
// to 256 elements per head. All arithmetic is f32 (f64 for f64); every sum has a fixed order. With
// tf32, f32 matmuls run on tensor cores if tf32.h supports the tensors.
namespace binade::backend::cuda::native {

void attention_forward(const AttentionForward& call);
void attention_backward(const AttentionBackward& call);

}  // namespace binade::backend::cuda::native
