#pragma once

#include "binade/tensor/tensor.h"

// Attention of f32 on tensor cores, operands of the products rounded to TF32 (to nearest); sums and
// softmaxes are f32, every sum in a fixed order.
namespace binade::backend::cuda::own {

// As AttentionKernels says, with delta [batch, heads, queries], the sums of dout * out over rows.
// False where such tensors are not served on the active device: nothing has been done then.
bool attention_forward_tf32(const TensorView& q, const TensorView& k, const TensorView& v,
                            double scale, bool causal, const TensorView& out,
                            const TensorView& lse);
bool attention_backward_tf32(const TensorView& dout, const TensorView& q, const TensorView& k,
                             const TensorView& v, const TensorView& lse, const TensorView& delta,
                             double scale, bool causal, const TensorView& dq, const TensorView& dk,
                             const TensorView& dv);

}  // namespace binade::backend::cuda::own
