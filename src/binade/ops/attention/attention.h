#pragma once

#include <optional>
#include <vector>

#include "binade/ops/attention/rope.h"
#include "binade/tensor/tensor.h"

namespace binade {

struct AttentionOptions {
  bool causal = false;               // query i sees keys 0 .. i + keys - queries
  std::optional<double> scale = {};  // 1 / sqrt(dim) by default
  int64_t window = 0;                // a causal query sees its last `window` keys; 0: all
  double softcap = 0;                // scores become softcap * tanh(score / softcap); 0: unchanged
  // Boolean: true where a query may see a key. Of a floating-point type: added to the scores, and
  // it gets a gradient. Broadcast to [batch, heads, queries, keys].
  Tensor mask = {};
  double dropout = 0;  // probability of dropping a weight; the others grow by 1 / (1 - dropout)
  // For packed_attention: offsets of documents that do not see one another, from 0 to batch *
  // tokens. Document i is positions documents[i] .. documents[i + 1] of the flattened batch. Empty:
  // each batch entry is one document.
  std::vector<int64_t> documents = {};
  // The bounds on qkv's device, document_bounds(documents): with it, packed_attention reads nothing
  // of the documents on the host where the device has kernels for them
  // (backend::attends_documents), so that a captured call can be replayed with other bounds.
  // Without offsets it fails elsewhere.
  Tensor bounds = {};
};

// i64 [rows, 2] on the CPU: how many rows of a row's document come before it, which is its position
// there, and how many there are from it on.
Tensor document_bounds(const std::vector<int64_t>& documents);

// softmax(q k^T * scale) v in tiles, the softmax in f32, the scores never stored.
// q [batch, heads, queries, dim]; k and v [batch, kv_heads, keys, dim]; heads a multiple of
// kv_heads. Queries and keys may differ in number. A query that sees no key gives zeros. A window
// shorter than the keys, a softcap, a mask and dropout run by plain ops, which store the scores of
// some queries at a time.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});
// scaled_dot_product_attention() by plain ops: the definition.
Tensor scaled_dot_product_attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                              const AttentionOptions& options = {});

// Attention on one buffer [batch, tokens, (heads + 2 * kv_heads) * dim] that holds q, k and v side
// by side, as one linear layer writes it. Result [batch, tokens, heads * dim]. No copies, one
// gradient buffer. Windows and documents are one kernel each way where backend::attends_documents.
Tensor packed_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                        const AttentionOptions& options = {.causal = true});
Tensor packed_attention_composite(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                                  const AttentionOptions& options = {.causal = true});

// Offsets of sequences that are stored one after the other: sequence i is rows offsets[i] to
// offsets[i + 1], as FlashAttention's cu_seqlens. The first is 0, the last the number of rows.
struct SequenceOffsets {
  std::vector<int64_t> queries;
  std::vector<int64_t> keys = {};  // as many; empty: those of the queries
};

// Attention inside each sequence. q [queries, heads, dim]; k and v [keys, kv_heads, dim]; the
// result has q's shape. In tiles like scaled_dot_product_attention: memory grows with the number of
// rows, work with the squares of the sequences' lengths. `causal` aligns the last query of a
// sequence with its last key. Offsets are on the host, so nothing waits for a GPU. Where
// backend::attends_documents, sequences with as many keys as queries are one kernel each way, with
// a window, too.
Tensor varlen_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const SequenceOffsets& offsets, const AttentionOptions& options = {});
Tensor varlen_attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const SequenceOffsets& offsets,
                                  const AttentionOptions& options = {});

// The keys and values of earlier tokens, [batch, kv_heads, capacity, dim] each, and their number,
// i64 [1] on the same device. With rotary tables, queries and keys are rotated.
struct DecodeCache {
  Tensor keys, values, position;
  Tensor cosine, sine;
};
// Attention of one more token per sequence, packed q, k and v [batch, 1, (heads + 2 * kv_heads) *
// dim], whose key and value are added to the cache at its position. Records no gradient. Nothing
// depends on the position's value on the host, so a captured call can be replayed.
Tensor decode_attention(const Tensor& qkv, const DecodeCache& cache,
                        std::optional<double> scale = {});

}  // namespace binade
