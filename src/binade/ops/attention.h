#pragma once

#include <optional>
#include <span>
#include <utility>

#include "binade/tensor/tensor.h"

namespace binade {

struct AttentionOptions {
  bool causal = false;          // query i sees keys 0 .. i + keys - queries
  std::optional<double> scale;  // 1 / sqrt(dim) by default
  int64_t window = 0;           // a causal query sees its last `window` keys; 0: all
  double softcap = 0;           // scores become softcap * tanh(score / softcap); 0: unchanged
};

// softmax(q k^T * scale) v in tiles, the softmax in f32, the scores never stored.
// q [batch, heads, queries, dim]; k and v [batch, kv_heads, keys, dim]; heads a multiple of
// kv_heads. A window shorter than the keys and a softcap run by plain ops, which store the scores.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    AttentionOptions options = {});
// The same by plain ops.
Tensor scaled_dot_product_attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                              AttentionOptions options = {});

// Attention on one buffer [batch, tokens, (heads + 2 * kv_heads) * dim] that holds q, k and v side
// by side, as one linear layer writes it. Result [batch, tokens, heads * dim]. No copies, one
// gradient buffer.
Tensor packed_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                        AttentionOptions options = {.causal = true, .scale = {}});
Tensor packed_attention_composite(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                                  AttentionOptions options = {.causal = true, .scale = {}});

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

// Cosines and sines of the rotary embedding: f32 [positions, dim / 2] each.
std::pair<Tensor, Tensor> rope_tables(int64_t positions, int64_t dim, double theta = 10000,
                                      Device device = Device::cpu());
// The same for given angles per position, one for each pair of channels.
std::pair<Tensor, Tensor> rope_tables(int64_t positions, std::span<const float> frequencies,
                                      Device device = Device::cpu());
// Rotates the first `rotated` heads (all by default) of x [batch, tokens, heads, dim] by their
// position, starting at `start`, in the rotate-half form; other heads pass through.
Tensor rope(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start = 0,
            int64_t rotated = -1);
// The same in x's own memory. x must be the result of an op that does not need it again, such as a
// linear layer's.
Tensor rope_(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start = 0,
             int64_t rotated = -1);
Tensor rope_composite(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start = 0,
                      int64_t rotated = -1);

}  // namespace binade
