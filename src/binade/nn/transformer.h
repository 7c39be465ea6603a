#pragma once

#include <memory>
#include <utility>

#include "binade/nn/linear.h"
#include "binade/nn/norm.h"
#include "binade/nn/sequential.h"

// The modules that GPT and Llama consist of.
namespace binade::nn {

struct AttentionConfig {
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  bool bias = true;
  bool causal = true;
  double dropout = 0;           // on the output
  double deviation = 0.02;      // of initial weights
  double out_deviation = 0.02;  // of the output projection's
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

// Self-attention with one packed projection for q, k and v.
class MultiheadAttention : public Layer {
 public:
  explicit MultiheadAttention(const AttentionConfig& config, Placement placement = {});

  using Layer::operator();
  // The same for tokens that follow those in `past`, to which they are added. Records no gradient.
  Tensor operator()(const Tensor& x, KeyValues& past);
  // Sets the rotary tables, which all layers of a model share; without them nothing is rotated.
  void set_rope(const Tensor& cosine, const Tensor& sine);

  Linear qkv, out;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  friend struct Fp8Fusion;
  // Packed q, k and v of tokens from position `start` on, rotated.
  Tensor project(const Tensor& x, int64_t start);
  // Rotates queries and keys in place.
  Tensor rotated(const Tensor& packed, int64_t start) const;
  // Creates the buffers of `past` for tokens like these, and fails if they do not fit.
  void prepare(const Tensor& packed, int64_t tokens, KeyValues& past) const;
  // Attention over whole sequences of packed q, k and v, and the output projection.
  Tensor attend(const Tensor& packed);

  int64_t heads_, kv_heads_, head_dim_;
  bool causal_;
  Tensor cosine_, sine_;
  Dropout dropout_;
};

struct MLPConfig {
  int64_t width = 0;
  int64_t hidden = 0;
  bool gated = false;  // SwiGLU with a packed gate and up projection
  bool bias = true;
  Activation activation = Activation::gelu_tanh;  // if not gated
  double dropout = 0;
  double deviation = 0.02;
  double out_deviation = 0.02;
};

class MLP : public Layer {
 public:
  explicit MLP(const MLPConfig& config, Placement placement = {});

  Linear up, down;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  friend struct Fp8Fusion;
  bool gated_;
  Dropout dropout_;
};

struct BlockConfig {
  AttentionConfig attention;
  MLPConfig mlp;
  NormKind norm = NormKind::layer;
  double eps = 1e-5;
};

// A pre-norm block: x + attention(norm(x)), then x + mlp(norm(x)). The norms fuse the residual
// additions, so a block takes and returns a pair: the output of the last branch, not yet added, and
// the residual stream before it (undefined at the first block).
class TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const BlockConfig& config, Placement placement = {});

  // `past`: the cached keys and values, to which those of these tokens are added.
  std::pair<Tensor, Tensor> forward(const Tensor& branch, const Tensor& residual,
                                    KeyValues* past = nullptr);
  // The whole block, with the last addition.
  Tensor operator()(const Tensor& x);

  MultiheadAttention attention;
  MLP mlp;

 private:
  std::unique_ptr<RowNorm> norms_[2];
};

}  // namespace binade::nn
