#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/nn/activations.h"
#include "binade/nn/rope.h"
#include "binade/nn/transformer.h"
#include "binade/ops/loss/loss.h"

namespace binade::nn {

// Which keys the queries of a layer see: all before them, or those in the window.
enum class LayerAttention : uint8_t { full, sliding };

// The options of a decoder-only transformer.
struct LanguageModelConfig {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t hidden = 0;    // of the MLP
  int64_t vocab = 0;
  int64_t context = 0;  // longest sequence
  NormKind norm = NormKind::layer;
  double eps = 1e-5;
  NormWeight norm_weight = NormWeight::plain;
  BlockKind block = BlockKind::pre_norm;
  bool bias = true;                           // in projections
  std::optional<bool> qkv_bias = {};          // in those of q, k and v; none: as bias
  std::optional<bool> out_bias = {};          // in that of attention's output; none: as bias
  bool gated = false;                         // activation(gate) * up
  std::optional<Activation> activation = {};  // none: silu if gated (SwiGLU), else gelu_tanh
  bool learned_positions = true;              // else rotary
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  int64_t rotary_dim = 0;                       // rotated channels of a head; 0: all
  std::optional<double> local_rope_theta = {};  // of sliding layers, unscaled; none: as in others
  QueryKeyNorm qk_norm = QueryKeyNorm::none;
  int64_t window = 0;                               // keys that a query sees; 0: all before it
  std::vector<LayerAttention> layer_types = {};     // empty: sliding if there is a window
  std::optional<double> attention_scale = {};       // none: 1 / sqrt(head_dim)
  double attention_softcap = 0, logit_softcap = 0;  // cap * tanh(x / cap); 0: none
  double embedding_scale = 1;                       // rounded to the embedding's type
  bool tied_head = true;                            // the head shares the token embedding's weight
  double dropout = 0;
  std::optional<DType> residual;  // type of the residual stream; none: that of the embedding
  Activations activations = {};   // what the forward keeps for the backward
  uint64_t seed = 0;              // of the initial weights
  // Facts for files and for generating text; the model itself does not use them.
  std::string family = {};  // model_type of its config.json; empty: the first that fits
  std::optional<int64_t> bos = {};
  std::vector<int64_t> eos = {};  // ids that end a text

  int64_t head_width() const { return head_dim != 0 ? head_dim : width / heads; }
  // The window of a layer; 0: none.
  int64_t window_of(int64_t layer) const;
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

// Called around each block of a forward: for parameters that are in memory only
// while a block uses them (ranks/units.h). A recompute does not call them again.
struct BlockHooks {
  std::function<void(int64_t block)> before;
  // `results` are those of the block, whose gradients a backward has before it runs the block's
  // ops.
  std::function<void(int64_t block, std::span<const Tensor> results)> after;
};

// A decoder-only transformer over token ids [batch, tokens].
class LanguageModel : public Module {
 public:
  explicit LanguageModel(const LanguageModelConfig& config, Placement placement = {});

  // [batch, tokens, vocab].
  Tensor logits(const Tensor& tokens);
  // Logits of tokens that follow those in `cache`, to which they are added: for generating text.
  // Records no gradient. The cache holds at most the context's tokens.
  Tensor logits(const Tensor& tokens, KeyValueCache& cache);
  // The same for tokens [sequences, tokens] that follow a cache each: caches of one sequence, whose
  // lengths may differ.
  Tensor logits(const Tensor& tokens, std::span<KeyValueCache* const> caches);
  // Logits of one token per sequence, [batch, 1]. `position`, i64 [1] on the model's device, is
  // the cache's length; the host's count changes only by cache.advance(). So this can be captured
  // as a graph and replayed with other tokens and positions.
  Tensor next_logits(const Tensor& tokens, const Tensor& position, KeyValueCache& cache);
  // Whether the model's attention can do that: not with windows, softcaps or partly rotated heads.
  bool has_next_logits();
  // Mean cross entropy of predicting targets [batch, tokens], without storing all logits at once.
  // Learned positions start again at each document.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const CrossEntropyOptions& options = {},
              const PackedDocuments& documents = {});
  // The log-probability of each target [batch, tokens] after the tokens up to it, f32; 0 for
  // targets of -100. Logits are computed some rows at a time, and again in the backward.
  Tensor log_probs(const Tensor& tokens, const Tensor& targets);

  // Fails unless these are documents of a batch [batch, tokens].
  void check_documents(const std::vector<int64_t>& offsets, const Shape& batch);
  // Whether activations of this type attend within documents by one kernel, which reads their
  // bounds on the device: then loss() needs no offsets.
  bool attends_documents(DType dtype);

  const LanguageModelConfig& config() const { return config_; }
  const Tensor& head_weight() const { return head_.defined() ? head_ : embedding_.weight; }
  // Linear::set_weight_format() for the head. Fails if the token embedding shares its weight.
  void set_head_format(const formats::WeightFormat* format);
  // Its format, or null.
  const formats::WeightFormat* head_format() const;
  void set_activations(const Activations& activations) { config_.activations = activations; }
  // Rows of logits that loss() and log_probs() compute at a time. 0, the default: as many as suit
  // the device, see logits_rows().
  void set_loss_chunk(int64_t rows) { loss_chunk_ = rows; }
  void set_block_hooks(BlockHooks hooks) { hooks_ = std::move(hooks); }

 private:
  // A pair of rotary tables.
  struct Rope {
    Tensor cosine, sine;
  };

  // Of a batch, as PastTokens.
  using Caches = std::span<KeyValueCache* const>;

  // Fails unless tokens fit after those in the caches.
  void check_length(const Tensor& tokens, Caches caches) const;
  // The embedded tokens, which follow those in the caches.
  Tensor embedded(const Tensor& tokens, Caches caches, const PackedDocuments& documents);
  // The normalized output of the last block, [batch, tokens, width].
  Tensor features(const Tensor& tokens, Caches caches = {}, const PackedDocuments& documents = {});
  Tensor head_logits(const Tensor& features) const {
    return head_logits(features, computed_head());
  }
  Tensor head_logits(const Tensor& features, const Tensor& head) const;
  // Rows of logits of a batch with that many rows to compute at a time.
  int64_t logits_chunk(int64_t rows, DType features) const;
  // The head's weight to compute with.
  Tensor computed_head() const;
  // The table that a layer uses: sliding layers may have their own.
  Rope& rope_of(int64_t layer);
  // The positions' embeddings, for tokens [batch, tokens] after those in the caches.
  Tensor position_rows(const Shape& tokens, Caches caches);
  // Moves the rotary tables, which layers share, to the model's device.
  void place_rope();

  LanguageModelConfig config_;
  Embedding embedding_;
  int64_t loss_chunk_ = 0;
  double embedding_scale_;
  std::unique_ptr<Embedding> positions_;
  Dropout dropout_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::unique_ptr<RowNorm> norm_;
  Tensor head_;
  std::shared_ptr<RoundedWeight> rounded_head_;  // null: computes with the weight itself
  Rope rope_, local_rope_;
  BlockHooks hooks_;
};

struct GPTConfig {
  int64_t layers = 12;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t vocab = 50257;
  int64_t context = 1024;
  double dropout = 0;
  std::optional<DType> residual = {};
  Activations activations = {};
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
  Activations activations = {};
  uint64_t seed = 0;
};

// Llama: RMSNorm, rotary positions, SwiGLU, no biases, grouped key heads.
class Llama : public LanguageModel {
 public:
  explicit Llama(const LlamaConfig& config, Device device = Device::cpu(),
                 DType dtype = DType::f32);
};

}  // namespace binade::nn
