#include "binade/nn/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/attention.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/quantized/fused.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

AttentionConfig completed(AttentionConfig config) {
  if (config.heads < 1 || config.width < 1) {
    fail("MultiheadAttention",
         {.argument = "width, heads",
          .expected = "at least 1",
          .found = std::to_string(config.width) + ", " + std::to_string(config.heads)});
  }
  if (config.kv_heads < 0 || config.head_dim < 0) {
    fail("MultiheadAttention",
         {.argument = "kv_heads, head_dim",
          .expected = "at least 0",
          .found = std::to_string(config.kv_heads) + ", " + std::to_string(config.head_dim)});
  }
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0 && config.width % config.heads != 0) {
    fail("MultiheadAttention",
         {.argument = "heads",
          .expected = "a divisor of the width " + std::to_string(config.width),
          .found = std::to_string(config.heads)});
  }
  if (config.head_dim == 0) config.head_dim = config.width / config.heads;
  if (config.heads % config.kv_heads != 0) {
    fail("MultiheadAttention", {.argument = "kv_heads",
                                .expected = "a divisor of " + std::to_string(config.heads),
                                .found = std::to_string(config.kv_heads)});
  }
  return config;
}

LinearConfig qkv_config(const AttentionConfig& given) {
  const AttentionConfig config = completed(given);
  return {.in = config.width,
          .out = (config.heads + 2 * config.kv_heads) * config.head_dim,
          .bias = config.bias,
          .deviation = config.deviation};
}

LinearConfig out_config(const AttentionConfig& given) {
  const AttentionConfig config = completed(given);
  return {.in = config.heads * config.head_dim,
          .out = config.width,
          .bias = config.out_bias.value_or(config.bias),
          .deviation = config.out_deviation};
}

}  // namespace

MultiheadAttention::MultiheadAttention(const AttentionConfig& config, Placement placement)
    : qkv(qkv_config(config), placement),
      out(out_config(config), placement),
      dropout_(config.dropout) {
  const AttentionConfig full = completed(config);
  heads_ = full.heads;
  kv_heads_ = full.kv_heads;
  head_dim_ = full.head_dim;
  options_ = {
      .causal = full.causal, .scale = full.scale, .window = full.window, .softcap = full.softcap};
  qk_norm_ = full.qk_norm;
  add_child("qkv", qkv);
  if (qk_norm_ != QueryKeyNorm::none) {
    const bool all = qk_norm_ == QueryKeyNorm::all_heads;
    const auto norm_of = [&](int64_t heads) {
      return make_norm(NormKind::rms, all ? heads * head_dim_ : head_dim_, full.eps, placement,
                       full.norm_weight);
    };
    q_norm_ = norm_of(heads_);
    k_norm_ = norm_of(kv_heads_);
    add_child("q_norm", *q_norm_);
    add_child("k_norm", *k_norm_);
  }
  add_child("out", out);
  add_child("dropout", dropout_);
}

void MultiheadAttention::set_rope(const Tensor& cosine, const Tensor& sine) {
  cosine_ = cosine;
  sine_ = sine;
}

Tensor MultiheadAttention::project(const Tensor& x, int64_t start) {
  if (x.rank() != 3)
    fail("MultiheadAttention",
         {.argument = "x", .expected = "[batch, tokens, width]", .found = describe(x)});
  return positioned(qkv(x), start);
}

Tensor MultiheadAttention::positioned(const Tensor& packed, int64_t start) {
  return rotated(qk_norm_ == QueryKeyNorm::none ? packed : normalized(packed), start);
}

Tensor MultiheadAttention::normalized(const Tensor& packed) {
  const int64_t batch = packed.size(0), tokens = packed.size(1);
  const auto parts =
      split(packed, {heads_ * head_dim_, kv_heads_ * head_dim_, kv_heads_ * head_dim_}, 2);
  const auto apply = [&](RowNorm& norm, const Tensor& x, int64_t heads) {
    if (qk_norm_ == QueryKeyNorm::all_heads) return norm(x);
    return reshape(norm(reshape(x, {batch, tokens, heads, head_dim_})), x.shape());
  };
  const Tensor q = apply(*q_norm_, parts[0], heads_), k = apply(*k_norm_, parts[1], kv_heads_);
  // Autocast may have widened the norms' results.
  return cat({cast(q, packed.dtype()), cast(k, packed.dtype()), parts[2]}, 2);
}

Tensor MultiheadAttention::rotated(const Tensor& packed, int64_t start) const {
  if (!cosine_.defined()) return packed;
  const int64_t parts = heads_ + 2 * kv_heads_;
  const Tensor heads = reshape(packed, {packed.size(0), packed.size(1), parts, head_dim_});
  const int64_t rotary = 2 * cosine_.size(1);
  if (rotary == head_dim_)
    return reshape(rope_(heads, cosine_, sine_, start, heads_ + kv_heads_), packed.shape());
  const auto channels = split(heads, {rotary, head_dim_ - rotary}, 3);
  const Tensor first = rope(channels[0], cosine_, sine_, start, heads_ + kv_heads_);
  return reshape(cat({first, channels[1]}, 3), packed.shape());
}

bool MultiheadAttention::only_rotates() const {
  return cosine_.defined() && 2 * cosine_.size(1) == head_dim_ && qk_norm_ == QueryKeyNorm::none;
}

Tensor MultiheadAttention::attend(const Tensor& packed, const PackedDocuments& documents) {
  AttentionOptions options = options_;
  options.documents = documents.offsets;
  options.bounds = documents.bounds;
  return dropout_(out(packed_attention(packed, heads_, kv_heads_, options)));
}

void MultiheadAttention::check(const std::vector<int64_t>& offsets, int64_t batch,
                               int64_t tokens) const {
  // Rotary scores depend on differences of positions only, so those of a document may start
  // anywhere, but they start again in every row.
  if (!cosine_.defined()) return;
  for (int64_t row = tokens; row < batch * tokens; row += tokens) {
    if (!std::binary_search(offsets.begin(), offsets.end(), row))
      fail("MultiheadAttention",
           {.argument = "documents",
            .expected = "an offset at the start of each row, as positions are rotary",
            .found = "none at " + std::to_string(row)});
  }
}

bool MultiheadAttention::attends_documents(DType dtype, Device device) const {
  return options_.softcap == 0 && backend::attends_documents(dtype, head_dim_, device);
}

Tensor MultiheadAttention::operator()(const Tensor& x, const PackedDocuments& documents) {
  const auto scope = enter();
  const Tensor packed = project(x, 0);
  if (!documents.offsets.empty()) check(documents.offsets, x.size(0), x.size(1));
  return attend(packed, documents);
}

Tensor MultiheadAttention::forward(const Tensor& x) { return attend(project(x, 0)); }

std::optional<std::pair<Tensor, Tensor>> MultiheadAttention::after_norm(const FusedNorm& norm) {
  if (has_hooks()) return std::nullopt;
  const auto scope = enter();
  const std::optional<QuantizedLayer> layer = qkv.fused_consumer();
  if (!layer || norm.x.rank() != 3) return std::nullopt;
  if (only_rotates() && keeps_type(Op::rope, norm.x)) {
    const auto [sum, packed] = quantized_norm_linear_rope(
        norm, *layer,
        {.cosine = cosine_, .sine = sine_, .dim = head_dim_, .rotated = heads_ + kv_heads_});
    return std::pair(sum, attend(packed));
  }
  const auto [sum, packed] = quantized_norm_linear(norm, *layer);
  return std::pair(sum, attend(positioned(packed, 0)));
}

void MultiheadAttention::prepare(const Tensor& packed, int64_t tokens, KeyValues& past) const {
  const int64_t batch = packed.size(0);
  if (!past.keys.defined()) {
    const Shape shape{batch, kv_heads_, past.capacity, head_dim_};
    past.keys = Tensor::empty(shape, packed.dtype(), packed.device());
    past.values = Tensor::empty_like(past.keys);
  }
  if (batch != past.keys.size(0) || past.length + tokens > past.capacity) {
    fail("MultiheadAttention",
         {.argument = "x",
          .expected = "the cache's batch, and tokens it has room for after its " +
                      std::to_string(past.length),
          .found = describe(packed) + " for a cache " + describe(past.keys)});
  }
}

bool MultiheadAttention::can_decode() const {
  const bool whole_heads = !cosine_.defined() || 2 * cosine_.size(1) == head_dim_;
  return whole_heads && options_.window == 0 && options_.softcap == 0;
}

Tensor MultiheadAttention::operator()(const Tensor& x, KeyValues& past) {
  const auto scope = enter();
  const NoGrad no_grad;
  if (past.position.defined()) {
    const Tensor projected = qkv(x);
    const Tensor packed = qk_norm_ == QueryKeyNorm::none ? projected : normalized(projected);
    prepare(packed, 1, past);
    return dropout_(out(decode_attention(
        packed, {past.keys, past.values, past.position, cosine_, sine_}, options_.scale)));
  }
  return dropout_(out(attend_after(project(x, past.length), past)));
}

Tensor MultiheadAttention::operator()(const Tensor& x, PastTokens past) {
  if (past.size() == 1) return (*this)(x, *past[0]);
  const auto scope = enter();
  const NoGrad no_grad;
  if (x.rank() != 3 || std::cmp_not_equal(x.size(0), past.size()))
    fail("MultiheadAttention",
         {.argument = "x",
          .expected = fmt::format("[{}, tokens, width], a cache for each", past.size()),
          .found = describe(x)});
  const Tensor packed = qkv(x);
  std::vector<Tensor> attended;
  for (size_t i = 0; i < past.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    attended.push_back(
        attend_after(positioned(slice(packed, 0, row, row + 1), past[i]->length), *past[i]));
  }
  return dropout_(out(cat(attended, 0)));
}

Tensor MultiheadAttention::attend_after(const Tensor& packed, KeyValues& past) const {
  const int64_t batch = packed.size(0), tokens = packed.size(1), end = past.length + tokens;
  prepare(packed, tokens, past);
  const std::vector<Tensor> parts =
      split(transpose(reshape(packed, {batch, tokens, heads_ + 2 * kv_heads_, head_dim_}), 1, 2),
            {heads_, kv_heads_, kv_heads_}, 1);
  copy_(slice(past.keys, 2, past.length, end), parts[1]);
  copy_(slice(past.values, 2, past.length, end), parts[2]);
  past.length = end;
  const Tensor seen = scaled_dot_product_attention(parts[0], slice(past.keys, 2, 0, end),
                                                   slice(past.values, 2, 0, end), options_);
  return reshape(transpose(seen, 1, 2), {batch, tokens, heads_ * head_dim_});
}

MLP::MLP(const MLPConfig& config, Placement placement)
    : up({.in = config.width,
          .out = config.gated ? 2 * config.hidden : config.hidden,
          .bias = config.bias,
          .activation =
              config.gated ? Activation::none : config.activation.value_or(Activation::gelu_tanh),
          .deviation = config.deviation,
          .feeds_swiglu =
              config.gated && config.activation.value_or(Activation::silu) == Activation::silu},
         placement),
      down({.in = config.hidden,
            .out = config.width,
            .bias = config.bias,
            .deviation = config.out_deviation},
           placement),
      gated_(config.gated),
      activation_(config.activation.value_or(gated_ ? Activation::silu : Activation::gelu_tanh)),
      dropout_(config.dropout) {
  if (gated_ && activation_ != Activation::silu && activation_ != Activation::gelu_tanh)
    fail("MLP", {.argument = "activation",
                 .expected = "silu or gelu_tanh for a gated MLP",
                 .found = "another one"});
  add_child("up", up);
  add_child("down", down);
  add_child("dropout", dropout_);
}

Tensor MLP::forward(const Tensor& x) {
  if (!gated_) return dropout_(down(up(x)));
  if (is_swiglu()) {
    const std::optional<QuantizedLayer> first = up.fused_consumer(), second = down.fused_consumer();
    if (first && second && keeps_type(Op::swiglu, x))
      return dropout_(quantized_swiglu_mlp(x, *first, *second));

    const auto [hidden, gated] = up.with_swiglu(x);
    return dropout_(down(swiglu(hidden, gated)));
  }
  return dropout_(down(gate(up(x))));
}

std::optional<std::pair<Tensor, Tensor>> MLP::after_norm(const FusedNorm& norm) {
  if (has_hooks()) return std::nullopt;
  const auto scope = enter();
  const std::optional<QuantizedLayer> first = up.fused_consumer(), second = down.fused_consumer();
  if (!first) return std::nullopt;
  if (is_swiglu() && second && keeps_type(Op::swiglu, norm.x)) {
    const auto [sum, y] = quantized_norm_swiglu_mlp(norm, *first, *second);
    return std::pair(sum, dropout_(y));
  }
  const auto [sum, hidden] = quantized_norm_linear(norm, *first);
  return std::pair(sum, dropout_(down(gated_ ? gate(hidden) : hidden)));
}

Tensor MLP::gate(const Tensor& packed) const {
  if (activation_ == Activation::silu) return swiglu(packed);
  const int64_t width = packed.size(-1) / 2;
  const auto parts = split(packed, {width, width}, -1);
  return gelu(parts[0], Gelu::tanh) * parts[1];
}

TransformerBlock::TransformerBlock(const BlockConfig& config, Placement placement)
    : attention(config.attention, placement), mlp(config.mlp, placement), kind_(config.kind) {
  const auto add_norm = [&](const char* name, std::unique_ptr<RowNorm>& norm) {
    norm =
        make_norm(config.norm, config.attention.width, config.eps, placement, config.norm_weight);
    add_child(name, *norm);
  };
  const bool before = kind_ != BlockKind::post_norm,
             after = kind_ == BlockKind::post_norm || kind_ == BlockKind::sandwich;
  if (before) add_norm("norm1", norms_[0]);
  add_child("attention", attention);
  if (after) add_norm("post_norm1", post_norms_[0]);
  if (before) add_norm("norm2", norms_[1]);
  add_child("mlp", mlp);
  if (after) add_norm("post_norm2", post_norms_[1]);
}

Tensor TransformerBlock::attend(const Tensor& x, PastTokens past,
                                const PackedDocuments& documents) {
  if (!past.empty()) return attention(x, past);
  return documents.empty() ? attention(x) : attention(x, documents);
}

std::pair<Tensor, Tensor> TransformerBlock::forward(const Tensor& branch, const Tensor& residual,
                                                    PastTokens past,
                                                    const PackedDocuments& documents) {
  const auto scope = enter();
  if (kind_ == BlockKind::parallel) {
    const auto [sum, normed] = norms_[0]->add(branch, residual);
    return {attend(normed, past, documents) + mlp((*norms_[1])(sum)), sum};
  }
  if (kind_ == BlockKind::post_norm) {
    const Tensor x = residual.defined() ? residual + branch : branch;
    const Tensor sum = x + (*post_norms_[0])(attend(x, past, documents));
    return {(*post_norms_[1])(mlp(sum)), sum};
  }
  if (kind_ == BlockKind::sandwich) {
    const auto [before, normed] = norms_[0]->add(branch, residual);
    const auto [sum, second] =
        norms_[1]->add((*post_norms_[0])(attend(normed, past, documents)), before);
    return {(*post_norms_[1])(mlp(second)), sum};
  }
  // {sum, part(norm of sum)}: the norm writes the quantized input of the part if it can.
  const auto through = [](const RowNorm& norm, auto& part, const Tensor& x, const Tensor& other) {
    if (const std::optional<FusedNorm> producer = norm.fused_producer(x, other)) {
      if (auto fused = part.after_norm(*producer)) return *std::move(fused);
    }
    const auto [sum, normed] = norm.add(x, other);
    return std::pair(sum, part(normed));
  };
  const auto attended = [&] {
    if (past.empty() && documents.empty()) return through(*norms_[0], attention, branch, residual);
    const auto [sum, normed] = norms_[0]->add(branch, residual);
    return std::pair(sum, attend(normed, past, documents));
  }();
  const auto [sum, y] = through(*norms_[1], mlp, attended.second, attended.first);
  return {y, sum};
}

Tensor TransformerBlock::operator()(const Tensor& x) {
  const auto [branch, residual] = forward(x, {});
  return residual + branch;
}

}  // namespace binade::nn
