#pragma once

#include <cstdint>
#include <span>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// q, out, dout, dq: [batch, heads, queries, dim]; k, v, dk, dv: [batch, kv_heads, keys, dim]; any
// strides with the last one 1, so that packed buffers need no copies. heads is a multiple of
// kv_heads. lse [batch, heads, queries] f32 (f64 for f64): log-sum-exp of each row, kept for the
// backward.
struct AttentionForward {
  TensorView q = {}, k = {}, v = {};
  double scale = 1;     // of the scores
  bool causal = false;  // query i sees keys 0 .. i + keys - queries
  bool tf32 = false;    // f32 matmuls may round their operands to TF32
  TensorView out = {}, lse = {};
};

// The same tensors and options as in the forward. dq, dk and dv are overwritten.
struct AttentionBackward {
  TensorView dout = {}, q = {}, k = {}, v = {}, out = {}, lse = {};
  double scale = 1;
  bool causal = false;
  bool tf32 = false;
  TensorView dq = {}, dk = {}, dv = {};
  // If present, [heads + 2 * kv_heads, dim] f32, dense: receives the sums of dq, dk and dv over
  // batch and tokens, before these are rounded. Only for arguments for which sums_gradients().
  TensorView sums = {};
};

// Rotate-half rotary embedding of x [batch, tokens, heads, dim] (last stride 1) by position +
// start; cosine and sine [positions, dim / 2] f32.
struct RotaryEmbedding {
  TensorView x = {}, cosine = {}, sine = {};
  int64_t start = 0;
  bool inverse = false;  // rotates by the negative angle, as the backward does
  TensorView y = {};     // may be x
};

// Attention of one new token per sequence over the cached keys and values, to which it adds its
// own. The position is read on the device, so that the call can be captured once and replayed.
struct AttentionDecode {
  TensorView qkv = {};                // [batch, 1, (heads + 2 * kv_heads) * dim], dense
  TensorView cosine = {}, sine = {};  // [positions, dim / 2] f32; absent: nothing is rotated
  TensorView position = {};           // i64 [1]: tokens cached so far, less than the capacity
  double scale = 1;
  bool tf32 = false;
  TensorView keys = {}, values = {};  // [batch, kv_heads, capacity, dim], dense, of qkv's type
  TensorView out = {};                // [batch, 1, heads * dim], dense, of qkv's type
};

// Tiled attention with an f32 online softmax; the score matrix is never stored. Sums are f32 (f64
// for f64) in a fixed order.
struct AttentionKernels {
  void (*forward)(const AttentionForward&);
  void (*backward)(const AttentionBackward&);
  // Independent calls of one dtype and dim, such as the sequences of a packed batch.
  void (*forward_each)(std::span<const AttentionForward>);
  void (*backward_each)(std::span<const AttentionBackward>);
  void (*rope)(const RotaryEmbedding&);
  void (*decode)(const AttentionDecode&);
};

// Whether `backward` of the device can compute `sums` along with these gradients.
bool sums_gradients(const AttentionBackward& args, Device device);

}  // namespace binade::backend
