#pragma once

#include "binade/tensor/tensor.h"

// Binade's own attention kernels: every compute type, any strides (the last one 1), any lengths, up
// to 256 elements a head. All arithmetic is f32 (f64 for f64); every sum has a fixed order. With
// tf32, products of f32 go to tensor cores where they can.
namespace binade::backend::cuda::own {

// As AttentionKernels says.
void attention_forward(const TensorView& q, const TensorView& k, const TensorView& v, double scale,
                       bool causal, bool tf32, const TensorView& out, const TensorView& lse);
void attention_backward(const TensorView& dout, const TensorView& q, const TensorView& k,
                        const TensorView& v, const TensorView& out, const TensorView& lse,
                        double scale, bool causal, bool tf32, const TensorView& dq,
                        const TensorView& dk, const TensorView& dv);

}  // namespace binade::backend::cuda::own
