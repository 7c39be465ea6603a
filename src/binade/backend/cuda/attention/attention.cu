#include "binade/backend/attention.h"

#include "binade/backend/cuda/attention/rope.h"
#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/kernels.h"
#ifdef BINADE_CUDNN
#include "binade/backend/cuda/attention/cudnn.h"
#endif

// cuDNN where it can, Binade's own kernels for the rest. Both keep the same lse, so that one's
// forward may meet the other's backward.
namespace binade::backend::cuda {
namespace {

void forward(TensorView q, TensorView k, TensorView v, double scale, bool causal, bool tf32,
             TensorView out, TensorView lse) {
#ifdef BINADE_CUDNN
  if (cudnn::attention_forward(q, k, v, scale, causal, out, lse)) return;
#endif
  own::attention_forward(q, k, v, scale, causal, tf32, out, lse);
}

void backward(TensorView dout, TensorView q, TensorView k, TensorView v, TensorView out,
              TensorView lse, double scale, bool causal, bool tf32, TensorView dq, TensorView dk,
              TensorView dv) {
#ifdef BINADE_CUDNN
  if (cudnn::attention_backward(dout, q, k, v, out, lse, scale, causal, dq, dk, dv)) return;
#endif
  own::attention_backward(dout, q, k, v, out, lse, scale, causal, tf32, dq, dk, dv);
}

}  // namespace

const AttentionKernels attention_kernels{.forward = forward, .backward = backward, .rope = rope};

}  // namespace binade::backend::cuda
