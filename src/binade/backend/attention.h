#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Tiled attention with an f32 online softmax; the score matrix is never stored.
// q, out, dout, dq: [batch, heads, queries, dim]; k, v, dk, dv: [batch, kv_heads, keys, dim]; any
// strides with the last one 1, so that packed buffers need no copies. heads is a multiple of
// kv_heads. lse [batch, heads, queries] f32 (f64 for f64): log-sum-exp of each row, kept for the
// backward.
struct AttentionKernels {
  // causal: query i sees keys 0 .. i + keys - queries. tf32: products of f32 may round their
  // operands to TF32.
  void (*forward)(TensorView q, TensorView k, TensorView v, double scale, bool causal, bool tf32,
                  TensorView out, TensorView lse);
  // Overwrites dq, dk, dv; sums are f32 in a fixed order.
  void (*backward)(TensorView dout, TensorView q, TensorView k, TensorView v, TensorView out,
                   TensorView lse, double scale, bool causal, bool tf32, TensorView dq,
                   TensorView dk, TensorView dv);
  // Rotate-half rotary embedding of x [batch, tokens, heads, dim] (last stride 1) by position +
  // start; cosine and sine [positions, dim / 2] f32. inverse turns the other way: the gradient. y
  // may be x.
  void (*rope)(TensorView x, TensorView cosine, TensorView sine, int64_t start, bool inverse,
               TensorView y);
};

}  // namespace binade::backend
