#pragma once

#include "binade/tensor/tensor.h"

// Attention by cuDNN: f16 and bf16, deterministic, straight from and into the given strides.
namespace binade::backend::cuda::cudnn {

// As AttentionKernels says. False where cuDNN does not serve such tensors on the active device:
// nothing has been done then.
bool attention_forward(const TensorView& q, const TensorView& k, const TensorView& v, double scale,
                       bool causal, const TensorView& out, const TensorView& lse);
bool attention_backward(const TensorView& dout, const TensorView& q, const TensorView& k,
                        const TensorView& v, const TensorView& out, const TensorView& lse,
                        double scale, bool causal, const TensorView& dq, const TensorView& dk,
                        const TensorView& dv);

}  // namespace binade::backend::cuda::cudnn
