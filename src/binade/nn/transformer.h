#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "binade/nn/linear.h"
#include "binade/nn/norm.h"
#include "binade/nn/packed_documents.h"
#include "binade/nn/sequential.h"
#include "binade/ops/attention/attention.h"

// The modules that language models consist of.
namespace binade::nn {

// RMSNorms of queries and keys before they are rotated: none, one per head over head_dim channels
// with a shared weight (Qwen3, Gemma 3), or one over the channels of all heads (OLMo-2).
enum class QueryKeyNorm : uint8_t { none, per_head, all_heads };

struct AttentionConfig {
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;               // 0: as many as heads
  int64_t head_dim = 0;               // 0: width / heads
  bool bias = true;                   // of q, k and v
  std::optional<bool> out_bias = {};  // of the output projection; none: as bias
  bool causal = true;
  QueryKeyNorm qk_norm = QueryKeyNorm::none;
  double eps = 1e-5;  // of those norms
  NormWeight norm_weight = NormWeight::plain;
  std::optional<double> scale = {};  // of scores; none: 1 / sqrt(head_dim)
  int64_t window = 0;                // keys that a query sees; 0: all before it
  double softcap = 0;                // of scores; 0: none
  double dropout = 0;                // on the output
  double deviation = 0.02;           // of initial weights
  double out_deviation = 0.02;       // of the output projection's
};

// The cached keys and values of one attention layer. Buffers [batch, kv_heads, capacity, head_dim],
// allocated at the first use.
struct KeyValues {
  Tensor keys, values;
  int64_t length = 0;  // cached tokens
  int64_t capacity = 0;
  // If defined, i64 [1] on the device: the cached tokens, instead of `length`, which stays as it
  // is.
  Tensor position = {};
};

// The caches of a batch, if there are any: one of all its sequences, or one of each, whose lengths
// may differ.
using PastTokens = std::span<KeyValues* const>;

// Self-attention with one packed projection for q, k and v.
class MultiheadAttention : public Layer {
 public:
  explicit MultiheadAttention(const AttentionConfig& config, Placement placement = {});

  using Layer::operator();
  // Attention of tokens that follow those in `past`, to which they are added. Records no gradient.
  Tensor operator()(const Tensor& x, KeyValues& past);
  // The same for caches of a sequence each. A sequence's result has the bits that it has alone if
  // the kernels' results do not depend on the batch.
  Tensor operator()(const Tensor& x, PastTokens past);
  // Attention within documents that do not see one another. With rotary tables each row of the
  // batch starts a document.
  Tensor operator()(const Tensor& x, const PackedDocuments& documents);
  // Fails unless documents of a batch of this shape fit.
  void check(const std::vector<int64_t>& offsets, int64_t batch, int64_t tokens) const;
  // Whether heads of this type attend within documents by one kernel, which reads their bounds on
  // the device.
  bool attends_documents(DType dtype, Device device) const;
  // Whether past.position may be set: not with a window, a softcap or partly rotated heads.
  bool can_decode() const;
  // Sets the rotary tables, which layers share; without them nothing is rotated. Tables for fewer
  // than head_dim channels rotate the first ones.
  void set_rope(const Tensor& cosine, const Tensor& sine);
  // For the library's own use: {sum, attention over the norm of the sum}, where the norm writes the
  // quantized input of qkv; none if it cannot.
  std::optional<std::pair<Tensor, Tensor>> after_norm(const FusedNorm& norm);

  Linear qkv, out;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  // Packed q, k and v of tokens from position `start` on, with `positioned` applied.
  Tensor project(const Tensor& x, int64_t start);
  // Normalizes and rotates q and k, in place where it can.
  Tensor positioned(const Tensor& packed, int64_t start);
  Tensor normalized(const Tensor& packed);
  Tensor rotated(const Tensor& packed, int64_t start) const;
  // Whether `positioned` rotates whole heads and does nothing else.
  bool only_rotates() const;
  // Creates the buffers of `past` for tokens like these, and fails if they do not fit.
  void prepare(const Tensor& packed, int64_t tokens, KeyValues& past) const;
  // Adds the tokens of packed q, k and v to `past` and attends from there: [batch, tokens, width].
  Tensor attend_after(const Tensor& packed, KeyValues& past) const;
  // Attention over whole sequences of packed q, k and v, and the output projection.
  Tensor attend(const Tensor& packed, const PackedDocuments& documents = {});

  int64_t heads_, kv_heads_, head_dim_;
  AttentionOptions options_;
  QueryKeyNorm qk_norm_;
  std::unique_ptr<RowNorm> q_norm_, k_norm_;
  Tensor cosine_, sine_;
  Dropout dropout_;
};

struct MLPConfig {
  int64_t width = 0;
  int64_t hidden = 0;
  bool gated = false;  // activation(gate) * up with a packed gate and up projection
  bool bias = true;
  std::optional<Activation> activation = {};  // none: silu if gated, else gelu_tanh
  double dropout = 0;
  double deviation = 0.02;
  double out_deviation = 0.02;
};

class MLP : public Layer {
 public:
  explicit MLP(const MLPConfig& config, Placement placement = {});

  // Has the contract of MultiheadAttention::after_norm.
  std::optional<std::pair<Tensor, Tensor>> after_norm(const FusedNorm& norm);

  Linear up, down;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  bool is_swiglu() const { return gated_ && activation_ == Activation::silu; }
  // activation(gate) * up of the packed projections.
  Tensor gate(const Tensor& packed) const;

  bool gated_;
  Activation activation_;
  Dropout dropout_;
};

enum class BlockKind : uint8_t {
  pre_norm,   // x + attention(norm(x)), then x + mlp(norm(x))
  post_norm,  // x + norm(attention(x)), then x + norm(mlp(x)): OLMo-2
  sandwich,   // x + norm(attention(norm(x))), then x + norm(mlp(norm(x))): Gemma
  parallel,   // x + attention(norm(x)) + mlp(norm(x)), with two norms: GPT-NeoX
};

struct BlockConfig {
  AttentionConfig attention;
  MLPConfig mlp;
  NormKind norm = NormKind::layer;
  double eps = 1e-5;
  NormWeight norm_weight = NormWeight::plain;
  BlockKind kind = BlockKind::pre_norm;
};

// A block of a transformer. The norms fuse the residual additions, so a block takes and returns a
// pair: the output of the last branch, not yet added, and the residual stream before it (undefined
// at the first block).
class TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const BlockConfig& config, Placement placement = {});

  // `past`: the cached keys and values, to which those of these tokens are added. `documents`: see
  // MultiheadAttention; there are none beside a cache.
  std::pair<Tensor, Tensor> forward(const Tensor& branch, const Tensor& residual,
                                    PastTokens past = {}, const PackedDocuments& documents = {});
  // The whole block, with the last addition.
  Tensor operator()(const Tensor& x);

  MultiheadAttention attention;
  MLP mlp;

 private:
  Tensor attend(const Tensor& x, PastTokens past, const PackedDocuments& documents);

  BlockKind kind_;
  std::unique_ptr<RowNorm> norms_[2];       // before attention and MLP; none in post_norm
  std::unique_ptr<RowNorm> post_norms_[2];  // after them; in post_norm and sandwich only
};

}  // namespace binade::nn
