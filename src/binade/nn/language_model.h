#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "binade/nn/transformer.h"
#include "binade/ops/loss/loss.h"

namespace binade::nn {

// The options of a decoder-only transformer.
struct LanguageModelConfig {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t hidden = 0;    // of the MLP
  int64_t vocab = 0;
  int64_t context = 0;  // longest sequence
  NormKind norm = NormKind::layer;
  double eps = 1e-5;
  bool bias = true;               // in projections
  bool gated = false;             // SwiGLU instead of GELU
  bool learned_positions = true;  // else rotary
  double rope_theta = 10000;
  bool tied_head = true;  // the head shares the token embedding's weight
  double dropout = 0;
  std::optional<DType> residual;  // type of the residual stream; none: that of the embedding
  bool recompute = false;         // recompute blocks in the backward instead of saving activations
  uint64_t seed = 0;              // of the initial weights
};

// The cached keys and values of a model's layers, for up to `capacity` tokens.
class KeyValueCache {
 public:
  explicit KeyValueCache(int64_t capacity) : capacity_(capacity) {}

  int64_t length() const { return layers_.empty() ? 0 : layers_[0].length; }
  int64_t capacity() const { return capacity_; }
  // Removes the tokens and keeps the memory.
  void clear();
  // Counts the token that next_logits() or its replay has added.
  void advance();

 private:
  friend class LanguageModel;
  int64_t capacity_;
  std::vector<KeyValues> layers_;  // created at the first use
};

// A decoder-only transformer over token ids [batch, tokens].
class LanguageModel : public Module {
 public:
  explicit LanguageModel(const LanguageModelConfig& config, Placement placement = {});

  // [batch, tokens, vocab].
  Tensor logits(const Tensor& tokens);
  // The same for tokens that follow those in `cache`, to which they are added: for generating text.
  // Records no gradient. The cache holds at most the context's tokens.
  Tensor logits(const Tensor& tokens, KeyValueCache& cache);
  // The same for one token per sequence, [batch, 1]. `position`, i64 [1] on the model's device, is
  // the cache's length; the host's count changes only by cache.advance(). So this can be captured
  // as a graph and replayed with other tokens and positions.
  Tensor next_logits(const Tensor& tokens, const Tensor& position, KeyValueCache& cache);
  // Mean cross entropy of predicting targets [batch, tokens], without storing all logits at once.
  Tensor loss(const Tensor& tokens, const Tensor& targets, CrossEntropyOptions options = {});

  const LanguageModelConfig& config() const { return config_; }
  const Tensor& head_weight() const { return head_.defined() ? head_ : embedding_.weight; }
  void set_recompute(bool recompute) { config_.recompute = recompute; }

 private:
  // The normalized output of the last block, [batch, tokens, width].
  Tensor features(const Tensor& tokens, KeyValueCache* cache = nullptr);
  // The positions' embeddings, for tokens after `start`.
  Tensor position_rows(int64_t start, int64_t end, const KeyValueCache* cache);
  // Moves the rotary tables, which all layers share, to the model's device.
  void place_rope();

  LanguageModelConfig config_;
  Embedding embedding_;
  std::unique_ptr<Embedding> positions_;
  Dropout dropout_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<RowNorm> norm_;
  Tensor head_;
  Tensor cosine_, sine_;
};

struct GPTConfig {
  int64_t layers = 12;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t vocab = 50257;
  int64_t context = 1024;
  double dropout = 0;
  std::optional<DType> residual = {};
  bool recompute = false;
  uint64_t seed = 0;
};

// GPT-2: LayerNorm, learned positions, GELU (tanh), biases, tied head.
class GPT : public LanguageModel {
 public:
  explicit GPT(const GPTConfig& config, Device device = Device::cpu(), DType dtype = DType::f32);
};

struct LlamaConfig {
  int64_t layers = 24;
  int64_t width = 2048;
  int64_t heads = 16;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t hidden = 5632;
  int64_t vocab = 32000;
  int64_t context = 2048;
  double eps = 1e-5;
  double rope_theta = 10000;
  bool tied_head = false;
  std::optional<DType> residual = {};
  bool recompute = false;
  uint64_t seed = 0;
};

// Llama: RMSNorm, rotary positions, SwiGLU, no biases, grouped key heads.
class Llama : public LanguageModel {
 public:
  explicit Llama(const LlamaConfig& config, Device device = Device::cpu(),
                 DType dtype = DType::f32);
};

}  // namespace binade::nn
