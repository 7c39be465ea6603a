#pragma once

#include "binade/nn/linear.h"

namespace binade::nn {

struct MaskedAttentionConfig {
  int64_t width = 0;
  int64_t heads = 0;
  int64_t key_width = 0;    // 0: width
  int64_t value_width = 0;  // 0: width
  bool bias = true;
  double dropout = 0;  // on the weights, while training
  bool batch_first = false;
};

// Masks as PyTorch has them, all optional. A bool mask is true where a key is NOT seen; a floating
// one is added to the scores.
struct AttentionMasks {
  Tensor key_padding;   // [batch, keys]
  Tensor attention;     // [queries, keys] or [batch * heads, queries, keys]
  bool causal = false;  // query i sees keys 0 to i, in addition to the masks
};

struct AttentionResult {
  Tensor output;   // like the query
  Tensor weights;  // [batch, queries, keys], averaged over heads
};

// PyTorch's nn.MultiheadAttention: attention of queries over keys and values, with masks and with
// PyTorch's parameter names (in_proj_weight, in_proj_bias, out_proj.*; q_proj_weight, k_proj_weight
// and v_proj_weight if widths differ). Inputs are [time, batch, width], or batch first. A query
// whose keys are all masked gets NaN, as in PyTorch. Language models use MultiheadAttention.
class MaskedAttention : public Module {
 public:
  explicit MaskedAttention(const MaskedAttentionConfig& config, Placement placement = {});

  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {});
  // Attention with its weights beside the result, which costs their memory.
  AttentionResult with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionMasks& masks = {});
  std::string description() const override;

  Tensor in_proj_weight, in_proj_bias;                 // q, k and v below each other
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  // instead, if widths differ
  Linear out_proj;

 private:
  // q, k and v as [batch, heads, time, head_dim].
  struct Projected {
    Tensor q, k, v;
  };
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void check(const Tensor& query, const Tensor& key, const Tensor& value) const;
  // What is added to the scores, [batch or 1, heads or 1, queries or 1, keys]; undefined: nothing.
  Tensor bias_of(const AttentionMasks& masks, const Projected& projected) const;
  // Probabilities [batch, heads, queries, keys].
  Tensor weights(const Projected& projected, const AttentionMasks& masks) const;
  // From [batch, heads, queries, head_dim] to the output.
  Tensor joined(const Tensor& heads);

  MaskedAttentionConfig config_;
  int64_t head_dim_;
};

}  // namespace binade::nn
