#pragma once

#include <cstdint>
#include <span>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Documents that are stored one after the other and do not see one another.
struct DocumentRows {
  // i64 [rows, 2], dense: how many rows of a row's document come before it, and how many there are
  // from it on. Kernels read them on the device, so that a captured call can be replayed with
  // others.
  TensorView bounds = {};
  int64_t length = 0;  // without bounds: of each document, the last of which may be shorter
  int64_t window = 0;  // a causal query sees its last `window` keys; 0: all before it

  bool present() const { return bounds.present || length > 0; }
};

// q, out, dout, dq: [batch, heads, queries, dim]; k, v, dk, dv: [batch, kv_heads, keys, dim]; any
// strides with the last one 1, so that packed buffers need no copies. heads is a multiple of
// kv_heads. lse [batch, heads, queries] f32 (f64 for f64): log-sum-exp of each row, kept for the
// backward.
struct AttentionForward {
  TensorView q = {}, k = {}, v = {};
  double scale = 1;     // of the scores
  bool causal = false;  // query i sees keys 0 .. i + keys - queries
  bool tf32 = false;    // f32 matmuls may round their operands to TF32
  // Only where capabilities(device).has_score_options:
  int64_t window = 0;  // a causal query sees its last `window` keys; 0: all
  double softcap = 0;  // scaled scores become cap * tanh(score / cap); 0: none
  // If present, the batch is 1, there are as many keys as queries, and queries see keys of their
  // own document only. Only where attends_documents().
  DocumentRows documents = {};
  TensorView out = {}, lse = {};
};

// Has the tensors and options of the forward. dq, dk and dv are overwritten.
struct AttentionBackward {
  TensorView dout = {}, q = {}, k = {}, v = {}, out = {}, lse = {};
  double scale = 1;
  bool causal = false;
  bool tf32 = false;
  int64_t window = 0;
  double softcap = 0;
  DocumentRows documents = {};
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

// Whether the device's kernels attend within documents, for heads of this type and size whose rows
// are multiples of 16 bytes apart. NaN and infinity do not pass from one document to another.
bool attends_documents(DType dtype, int64_t dim, Device device);

}  // namespace binade::backend
