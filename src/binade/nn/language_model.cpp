#include "binade/nn/language_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/autograd/grad_mode.h"
#include "binade/nn/init.h"
#include "binade/nn/rounded_weight.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/attention/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/loss/log_probs.h"
#include "binade/ops/recompute.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

constexpr double deviation = 0.02;  // of initial weights, as in GPT-2

// Checks the configuration and seeds the initial weights. Called before the first member is built.
LanguageModelConfig checked_and_seeded(const LanguageModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", config.layers}, {"width", config.width}, {"heads", config.heads},
      {"hidden", config.hidden}, {"vocab", config.vocab}, {"context", config.context}};
  for (const auto& [name, size] : sizes) {
    if (size < 1)
      fail("LanguageModel",
           {.argument = name, .expected = "at least 1", .found = std::to_string(size)});
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    fail("LanguageModel", {.argument = "dropout",
                           .expected = "0 up to 1",
                           .found = fmt::format("{}", config.dropout)});
  }
  const int64_t rotary = config.rotary_dim != 0 ? config.rotary_dim : config.head_width();
  if (!config.learned_positions && rotary % 2 != 0) {
    fail("LanguageModel", {.argument = "heads",
                           .expected = "an even head dimension for rotary positions",
                           .found = std::to_string(rotary)});
  }
  if (!config.learned_positions && (rotary < 1 || rotary > config.head_width())) {
    fail("LanguageModel",
         {.argument = "rotary_dim",
          .expected = "at most the " + std::to_string(config.head_width()) + " channels of a head",
          .found = std::to_string(rotary)});
  }
  if (!config.layer_types.empty() && std::cmp_not_equal(config.layer_types.size(), config.layers)) {
    fail("LanguageModel",
         {.argument = "layer_types",
          .expected = "one for each of the " + std::to_string(config.layers) + " layers",
          .found = std::to_string(config.layer_types.size())});
  }
  init::restart(config.seed);
  return config;
}

// Projections into the residual stream get smaller initial weights, so that its variance does not
// grow with depth.
BlockConfig block_config(const LanguageModelConfig& config, int64_t layer) {
  const double out = deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
  return {.attention = {.width = config.width,
                        .heads = config.heads,
                        .kv_heads = config.kv_heads,
                        .head_dim = config.head_dim,
                        .bias = config.qkv_bias.value_or(config.bias),
                        .out_bias = config.out_bias.value_or(config.bias),
                        .qk_norm = config.qk_norm,
                        .eps = config.eps,
                        .norm_weight = config.norm_weight,
                        .scale = config.attention_scale,
                        .window = config.window_of(layer),
                        .softcap = config.attention_softcap,
                        .dropout = config.dropout,
                        .deviation = deviation,
                        .out_deviation = out},
          .mlp = {.width = config.width,
                  .hidden = config.hidden,
                  .gated = config.gated,
                  .bias = config.bias,
                  .activation = config.activation,
                  .dropout = config.dropout,
                  .deviation = deviation,
                  .out_deviation = out},
          .norm = config.norm,
          .eps = config.eps,
          .norm_weight = config.norm_weight,
          .kind = config.block};
}

// The documents with their bounds on `device`: once for all layers.
PackedDocuments with_bounds(const PackedDocuments& documents, Device device) {
  if (documents.empty() || documents.bounds.defined()) return documents;
  return {documents.offsets, to(document_bounds(documents.offsets), device)};
}

// The position of each token in its document.
Tensor positions_in(const Tensor& bounds, const Shape& tokens) {
  return reshape(slice(bounds, 1, 0, 1), tokens);
}

// A block's forward whose activations the backward computes again.
std::pair<Tensor, Tensor> recomputed(TransformerBlock& block, const Tensor& branch,
                                     const Tensor& residual, const PackedDocuments& documents) {
  const auto run = [&block, documents](std::span<const Tensor> in) {
    const auto [next, sum] = block.forward(in[0], in[1], {}, documents);
    return std::vector<Tensor>{next, sum};
  };
  const Tensor inputs[] = {branch, residual};
  const std::vector<Tensor> outputs = checkpoint_many(run, inputs, block.parameters());
  return {outputs[0], outputs[1]};
}

// For its lifetime, the blocks that a recipe leaves out at the model's ends run without it.
class SkippedBlockScope {
 public:
  SkippedBlockScope(int64_t layer, int64_t layers) {
    const amp::RecipeState& current = amp::recipe_state();
    const amp::Recipe& recipe = current.recipe;
    if (!current.enabled || (layer >= recipe.skip_first && layer < layers - recipe.skip_last))
      return;
    amp::RecipeState disabled = current;
    disabled.enabled = false;
    guard_.emplace(std::move(disabled));
  }

 private:
  std::optional<amp::QuantizedAutocast> guard_;
};

}  // namespace

int64_t LanguageModelConfig::window_of(int64_t layer) const {
  const bool sliding =
      layer_types.empty() || layer_types[static_cast<size_t>(layer)] == LayerAttention::sliding;
  return sliding ? window : 0;
}

LanguageModel::LanguageModel(const LanguageModelConfig& config, Placement placement)
    : config_(checked_and_seeded(config)),
      embedding_({.count = config.vocab, .width = config.width, .deviation = deviation}, placement),
      embedding_scale_(full({}, config.embedding_scale, placement.dtype).item()),
      dropout_(config.dropout) {
  add_child("embedding", embedding_);
  if (config_.learned_positions) {
    positions_ = std::make_unique<Embedding>(
        EmbeddingConfig{config_.context, config_.width, deviation}, placement);
    add_child("positions", *positions_);
  } else {
    const memory::CategoryGuard category(memory::Category::parameters);
    const auto tables = [&](double theta, const RopeScaling& scaling) {
      const int64_t dim = config_.rotary_dim != 0 ? config_.rotary_dim : config_.head_width();
      const auto [cosine, sine] =
          rope_tables(config_.context, rope_frequencies(dim, theta, scaling), placement.device);
      return Rope{cosine, sine};
    };
    rope_ = tables(config_.rope_theta, config_.rope_scaling);
    if (config_.local_rope_theta) local_rope_ = tables(*config_.local_rope_theta, {});
  }
  add_child("dropout", dropout_);
  for (int64_t i = 0; i < config_.layers; ++i) {
    blocks_.push_back(std::make_unique<TransformerBlock>(block_config(config_, i), placement));
    if (rope_.cosine.defined())
      blocks_.back()->attention.set_rope(rope_of(i).cosine, rope_of(i).sine);
    add_child("blocks." + std::to_string(i), *blocks_.back());
  }
  norm_ = make_norm(config_.norm, config_.width, config_.eps, placement, config_.norm_weight);
  add_child("norm", *norm_);
  if (!config_.tied_head)
    head_ = init::normal({config_.vocab, config_.width}, deviation, placement);
  add_parameter("head", head_);
}

void LanguageModel::place_rope() {
  const Device device = embedding_.weight.device();
  if (!rope_.cosine.defined() || rope_.cosine.device() == device) return;
  const memory::CategoryGuard category(memory::Category::parameters);
  for (Rope* rope : {&rope_, &local_rope_}) {
    if (!rope->cosine.defined()) continue;
    rope->cosine = binade::to(rope->cosine, device);
    rope->sine = binade::to(rope->sine, device);
  }
  for (int64_t i = 0; i < config_.layers; ++i)
    blocks_[static_cast<size_t>(i)]->attention.set_rope(rope_of(i).cosine, rope_of(i).sine);
}

LanguageModel::Rope& LanguageModel::rope_of(int64_t layer) {
  return local_rope_.cosine.defined() && config_.window_of(layer) > 0 ? local_rope_ : rope_;
}

void KeyValueCache::clear() {
  for (KeyValues& layer : layers_) layer.length = 0;
}

void KeyValueCache::advance() {
  for (KeyValues& layer : layers_) ++layer.length;
}

Tensor LanguageModel::position_rows(const Shape& tokens, Caches caches) {
  if (!caches.empty() && caches[0]->layers_[0].position.defined())
    return (*positions_)(caches[0]->layers_[0].position);
  const auto rows_after = [&](int64_t start) {
    return slice(positions_->weight, 0, start, start + tokens[1]);
  };
  if (caches.size() < 2) return rows_after(caches.empty() ? 0 : caches[0]->length());
  std::vector<Tensor> rows;
  for (const KeyValueCache* cache : caches) rows.push_back(rows_after(cache->length()));
  return stack(rows, 0);
}

Tensor LanguageModel::embedded(const Tensor& tokens, Caches caches,
                               const PackedDocuments& documents) {
  Tensor x = embedding_(tokens);
  if (embedding_scale_ != 1) x = x * embedding_scale_;
  if (positions_ && !documents.empty()) {
    x = x + (*positions_)(positions_in(documents.bounds, tokens.shape()));
  } else if (positions_) {
    x = x + position_rows(tokens.shape(), caches);
  }
  return dropout_(config_.residual ? cast(x, *config_.residual) : x);
}

void LanguageModel::check_length(const Tensor& tokens, Caches caches) const {
  if (!tokens.defined() || tokens.rank() != 2)
    fail("LanguageModel",
         {.argument = "tokens", .expected = "[batch, tokens]", .found = describe(tokens)});
  int64_t start = 0, room = config_.context;
  for (const KeyValueCache* cache : caches) {
    const int64_t left = std::min(config_.context, cache->capacity_) - cache->length();
    if (left < room) start = cache->length();
    room = std::min(room, left);
  }
  if (tokens.size(1) <= room) return;
  fail("LanguageModel",
       {.argument = "tokens",
        .expected = "at most " + std::to_string(start + room) + " per sequence",
        .found = describe(tokens) + (start > 0 ? " after " + std::to_string(start) : "")});
}

Tensor LanguageModel::features(const Tensor& tokens, Caches caches, const PackedDocuments& given) {
  check_length(tokens, caches);
  place_rope();
  if (!given.offsets.empty()) check_documents(given.offsets, tokens.shape());
  const PackedDocuments documents = with_bounds(given, tokens.device());
  Tensor branch = embedded(tokens, caches, documents), residual;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    TransformerBlock* block = blocks_[i].get();
    const auto index = static_cast<int64_t>(i);
    const SkippedBlockScope skipped(index, config_.layers);
    if (hooks_.before) hooks_.before(index);
    const KeepResults keep(config_.activations.keeps(index, config_.layers));
    if (!caches.empty() || !config_.activations.recomputes(index, config_.layers)) {
      std::vector<KeyValues*> past;
      for (KeyValueCache* cache : caches) past.push_back(&cache->layers_[i]);
      std::tie(branch, residual) = block->forward(branch, residual, past, documents);
    } else {
      std::tie(branch, residual) = recomputed(*block, branch, residual, documents);
    }
    const Tensor results[] = {branch, residual};
    if (hooks_.after) hooks_.after(index, results);
  }
  return norm_->add(branch, residual).second;
}

void LanguageModel::check_documents(const std::vector<int64_t>& offsets, const Shape& batch) {
  ops::check_offsets("LanguageModel", "documents", offsets, batch.numel());
  for (const auto& block : blocks_) block->attention.check(offsets, batch[0], batch[1]);
}

bool LanguageModel::attends_documents(DType dtype) {
  const Device device = head_weight().device();
  return std::all_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
    return block->attention.attends_documents(dtype, device);
  });
}

void LanguageModel::set_head_format(const formats::WeightFormat* format) {
  if (format != nullptr && !head_.defined())
    fail("LanguageModel", {.argument = "weight format of the head",
                           .expected = "a head with a weight of its own",
                           .found = "one that the token embedding shares"});
  if (format != nullptr && config_.width % format->group_columns != 0)
    fail("LanguageModel", {.argument = "weight format " + std::string(format->name),
                           .expected = "a head whose inputs are a multiple of " +
                                       std::to_string(format->group_columns),
                           .found = std::to_string(config_.width)});
  rounded_head_ = format == nullptr
                      ? nullptr
                      : std::make_shared<RoundedWeight>(*format, std::vector<WeightPart>());
}

const formats::WeightFormat* LanguageModel::head_format() const {
  return rounded_head_ == nullptr ? nullptr : &rounded_head_->format();
}

Tensor LanguageModel::computed_head() const {
  return rounded_head_ == nullptr ? head_weight() : (*rounded_head_)(head_);
}

Tensor LanguageModel::head_logits(const Tensor& features, const Tensor& head) const {
  const Tensor logits = linear(features, head);
  const double cap = config_.logit_softcap;
  return cap == 0 ? logits : tanh(logits * (1 / cap)) * cap;
}

Tensor LanguageModel::logits(const Tensor& tokens) {
  const auto scope = enter();
  return head_logits(features(tokens));
}

Tensor LanguageModel::logits(const Tensor& tokens, KeyValueCache& cache) {
  return logits(tokens, std::array{&cache});
}

Tensor LanguageModel::logits(const Tensor& tokens, Caches caches) {
  const auto scope = enter();
  const NoGrad no_grad;
  for (KeyValueCache* cache : caches) {
    if (cache->layers_.empty())
      cache->layers_.assign(blocks_.size(), {.capacity = cache->capacity_});
  }
  return head_logits(features(tokens, caches));
}

bool LanguageModel::has_next_logits() {
  place_rope();
  return std::all_of(blocks_.begin(), blocks_.end(),
                     [](const auto& block) { return block->attention.can_decode(); });
}

Tensor LanguageModel::next_logits(const Tensor& tokens, const Tensor& position,
                                  KeyValueCache& cache) {
  const auto scope = enter();
  const NoGrad no_grad;
  if (tokens.rank() != 2 || tokens.size(1) != 1)
    fail("LanguageModel",
         {.argument = "tokens", .expected = "[batch, 1]", .found = describe(tokens)});
  if (cache.layers_.empty()) cache.layers_.assign(blocks_.size(), {.capacity = cache.capacity_});
  struct Positions {  // set for its lifetime
    KeyValueCache& cache;
    ~Positions() {
      for (KeyValues& layer : cache.layers_) layer.position = {};
    }
  };
  const Positions positions{cache};
  for (KeyValues& layer : cache.layers_) layer.position = position;
  return head_logits(features(tokens, std::array{&cache}));
}

Tensor LanguageModel::loss(const Tensor& tokens, const Tensor& targets,
                           const CrossEntropyOptions& options, const PackedDocuments& documents) {
  const auto scope = enter();
  const Tensor x = features(tokens, {}, documents);
  if (config_.logit_softcap != 0) {
    CrossEntropyOptions last = options;
    last.class_axis = -1;  // there may be as many tokens as words
    return cross_entropy(head_logits(x), targets, last);
  }
  return linear_cross_entropy(x, computed_head(), targets, options, loss_chunk_);
}

int64_t LanguageModel::logits_chunk(int64_t rows, DType features) const {
  if (loss_chunk_ != 0) return loss_chunk_;
  const amp::AutocastState& autocast = amp::autocast_state();
  return logits_rows(rows,
                     {.classes = config_.vocab,
                      .width = config_.width,
                      .dtype = autocast.enabled ? autocast.dtype : features},
                     head_weight().device());
}

Tensor LanguageModel::log_probs(const Tensor& tokens, const Tensor& targets) {
  const auto scope = enter();
  const Tensor x = features(tokens), head = computed_head();
  const int64_t rows = targets.numel(), chunk = logits_chunk(rows, x.dtype());
  const Tensor flat = reshape(x, {rows, config_.width}), ids = reshape(targets, {rows});
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = std::min(begin + chunk, rows);
    const auto part = [this, of = slice(ids, 0, begin, end)](std::span<const Tensor> in) {
      const memory::CategoryGuard category(memory::Category::logits);
      return token_log_probs(head_logits(in[0], in[1]), of);
    };
    parts.push_back(checkpoint(part, {slice(flat, 0, begin, end), head}));
  }
  return reshape(cat(parts, 0), targets.shape());
}

GPT::GPT(const GPTConfig& config, Device device, DType dtype)
    : LanguageModel({.layers = config.layers,
                     .width = config.width,
                     .heads = config.heads,
                     .hidden = 4 * config.width,
                     .vocab = config.vocab,
                     .context = config.context,
                     .dropout = config.dropout,
                     .residual = config.residual,
                     .activations = config.activations,
                     .seed = config.seed},
                    {device, dtype}) {}

Llama::Llama(const LlamaConfig& config, Device device, DType dtype)
    : LanguageModel({.layers = config.layers,
                     .width = config.width,
                     .heads = config.heads,
                     .kv_heads = config.kv_heads,
                     .hidden = config.hidden,
                     .vocab = config.vocab,
                     .context = config.context,
                     .norm = NormKind::rms,
                     .eps = config.eps,
                     .bias = false,
                     .gated = true,
                     .learned_positions = false,
                     .rope_theta = config.rope_theta,
                     .tied_head = config.tied_head,
                     .residual = config.residual,
                     .activations = config.activations,
                     .seed = config.seed},
                    {device, dtype}) {}

}  // namespace binade::nn
