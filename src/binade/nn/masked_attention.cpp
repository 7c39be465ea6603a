#include "binade/nn/masked_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "binade/autograd/grad_mode.h"
#include "binade/nn/init.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

constexpr const char* op = "MaskedAttention";

MaskedAttentionConfig checked(MaskedAttentionConfig config) {
  if (config.width < 1 || config.heads < 1 || config.width % config.heads != 0) {
    fail(op, {.argument = "width, heads",
              .expected = "at least 1, width a multiple of heads",
              .found = fmt::format("{}, {}", config.width, config.heads)});
  }
  if (!(config.dropout >= 0 && config.dropout <= 1))
    fail(op,
         {.argument = "dropout", .expected = "0 to 1", .found = fmt::format("{}", config.dropout)});
  if (config.key_width == 0) config.key_width = config.width;
  if (config.value_width == 0) config.value_width = config.width;
  return config;
}

// Xavier's bound for a weight [out, in].
double xavier_bound(int64_t out, int64_t in) {
  return std::sqrt(6.0 / static_cast<double>(out + in));
}

// A mask as numbers to add to f32 scores.
Tensor to_add(const char* argument, const Tensor& mask) {
  if (mask.dtype() != DType::boolean && !is_compute(mask.dtype()))
    fail(op, {.argument = argument, .expected = "bool or floating", .found = describe(mask)});
  if (mask.dtype() != DType::boolean) return cast(mask, promote(mask.dtype(), DType::f32));
  const Tensor zero = zeros({}, DType::f32, mask.device());
  const Tensor hidden =
      full({}, -std::numeric_limits<double>::infinity(), DType::f32, mask.device());
  return where(mask, hidden, zero);
}

}  // namespace

MaskedAttention::MaskedAttention(const MaskedAttentionConfig& config, Placement placement)
    : out_proj({.in = checked(config).width, .out = config.width, .bias = config.bias}, placement),
      config_(checked(config)),
      head_dim_(config.width / config.heads) {
  const int64_t width = config_.width;
  if (config_.key_width == width && config_.value_width == width) {
    in_proj_weight = init::uniform({3 * width, width}, xavier_bound(3 * width, width), placement);
  } else {
    const auto weight = [&](int64_t in) {
      return init::uniform({width, in}, xavier_bound(width, in), placement);
    };
    q_proj_weight = weight(width);
    k_proj_weight = weight(config_.key_width);
    v_proj_weight = weight(config_.value_width);
  }
  if (config_.bias) {
    in_proj_bias = init::constant({3 * width}, 0, placement);
    const NoGrad no_grad;
    fill_(out_proj.bias, 0);
  }
  add_parameter("in_proj_weight", in_proj_weight);
  add_parameter("q_proj_weight", q_proj_weight);
  add_parameter("k_proj_weight", k_proj_weight);
  add_parameter("v_proj_weight", v_proj_weight);
  add_parameter("in_proj_bias", in_proj_bias);
  add_child("out_proj", out_proj);
}

std::string MaskedAttention::description() const {
  return fmt::format("MaskedAttention({}, heads {})", config_.width, config_.heads);
}

void MaskedAttention::check(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const int batch = config_.batch_first ? 0 : 1;
  const std::tuple<const char*, const Tensor*, int64_t> inputs[] = {
      {"query", &query, config_.width},
      {"key", &key, config_.key_width},
      {"value", &value, config_.value_width}};
  for (const auto& [argument, x, width] : inputs) {
    if (!x->defined() || x->rank() != 3 || x->size(2) != width ||
        x->size(batch) != query.size(batch)) {
      fail(op, {.argument = argument,
                .expected = fmt::format("[{}, {}], one batch for all",
                                        config_.batch_first ? "batch, time" : "time, batch", width),
                .found = describe(*x)});
    }
  }
  if (key.size(1 - batch) != value.size(1 - batch)) {
    fail(op, {.argument = "value",
              .expected = "as many as keys, " + describe(key),
              .found = describe(value)});
  }
}

MaskedAttention::Projected MaskedAttention::project(const Tensor& query, const Tensor& key,
                                                    const Tensor& value) const {
  const auto part = [&](const Tensor& packed, int64_t i) {
    return packed.defined() ? slice(packed, 0, i * config_.width, (i + 1) * config_.width)
                            : Tensor();
  };
  const auto heads = [&](const Tensor& x, const Tensor& own, int64_t i) {
    const Tensor weight = own.defined() ? own : part(in_proj_weight, i);
    const Tensor y = linear(x, weight, part(in_proj_bias, i));
    const Tensor split = reshape(y, {y.size(0), y.size(1), config_.heads, head_dim_});
    return config_.batch_first ? permute(split, {0, 2, 1, 3}) : permute(split, {1, 2, 0, 3});
  };
  return {heads(query, q_proj_weight, 0), heads(key, k_proj_weight, 1),
          heads(value, v_proj_weight, 2)};
}

Tensor MaskedAttention::bias_of(const AttentionMasks& masks, const Projected& projected) const {
  const int64_t batch = projected.q.size(0), queries = projected.q.size(2),
                keys = projected.k.size(2);
  Tensor bias;
  const auto add = [&bias](const Tensor& more) { bias = bias.defined() ? bias + more : more; };
  const auto require = [](const char* argument, bool ok, const std::string& expected,
                          const Tensor& found) {
    if (!ok) fail(op, {.argument = argument, .expected = expected, .found = describe(found)});
  };
  if (masks.key_padding.defined()) {
    const Tensor& mask = masks.key_padding;
    require("masks.key_padding", mask.shape() == Shape{batch, keys},
            fmt::format("[{}, {}]", batch, keys), mask);
    add(reshape(to_add("masks.key_padding", mask), {batch, 1, 1, keys}));
  }
  if (masks.attention.defined()) {
    const Tensor& mask = masks.attention;
    const Shape per_head{batch * config_.heads, queries, keys};
    require("masks.attention", mask.shape() == Shape{queries, keys} || mask.shape() == per_head,
            fmt::format("[{}, {}] or {}", queries, keys, to_string(per_head)), mask);
    const bool has_heads = mask.rank() == 3;
    add(reshape(to_add("masks.attention", mask),
                {has_heads ? batch : 1, has_heads ? config_.heads : 1, queries, keys}));
  }
  if (masks.causal) {
    const Device device = projected.q.device();
    const Tensor query = reshape(arange(queries, DType::i64, device), {queries, 1});
    const Tensor key = reshape(arange(keys, DType::i64, device), {1, keys});
    add(reshape(to_add("masks.causal", greater(key, query)), {1, 1, queries, keys}));
  }
  return bias;
}

Tensor MaskedAttention::weights(const Projected& projected, const AttentionMasks& masks) const {
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim_));
  Tensor scores = matmul(projected.q * scale, transpose(projected.k, 2, 3));
  if (const Tensor bias = bias_of(masks, projected); bias.defined()) scores = scores + bias;
  return softmax(scores);
}

Tensor MaskedAttention::joined(const Tensor& heads) {
  const std::vector<int64_t> order =
      config_.batch_first ? std::vector<int64_t>{0, 2, 1, 3} : std::vector<int64_t>{2, 0, 1, 3};
  const Tensor y = permute(heads, order);
  return out_proj(reshape(y, {y.size(0), y.size(1), config_.width}));
}

Tensor MaskedAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMasks& masks) {
  const auto scope = enter();
  check(query, key, value);
  const Projected projected = project(query, key, value);
  const bool drops = training() && config_.dropout > 0;
  const bool has_masks = masks.key_padding.defined() || masks.attention.defined();
  // A causal query sees keys by its distance from the end, so it needs as many keys as queries.
  const bool is_plain = !masks.causal || projected.q.size(2) == projected.k.size(2);
  if (!drops && !has_masks && is_plain) {
    return joined(scaled_dot_product_attention(contiguous(projected.q), contiguous(projected.k),
                                               contiguous(projected.v), {.causal = masks.causal}));
  }
  const Tensor seen = dropout(weights(projected, masks), config_.dropout, training());
  return joined(matmul(cast(seen, projected.v.dtype()), projected.v));
}

AttentionResult MaskedAttention::with_weights(const Tensor& query, const Tensor& key,
                                              const Tensor& value, const AttentionMasks& masks) {
  const auto scope = enter();
  check(query, key, value);
  const Projected projected = project(query, key, value);
  const Tensor seen = dropout(weights(projected, masks), config_.dropout, training());
  return {joined(matmul(cast(seen, projected.v.dtype()), projected.v)), mean(seen, 1)};
}

}  // namespace binade::nn
