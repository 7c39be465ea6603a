#include "binade/ops/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/backend/capabilities.h"
#include "binade/ops/attention/common.h"
#include "binade/ops/common.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace ops {

void check_options(const char* op, const AttentionOptions& options) {
  if (options.scale) require_finite(op, "scale", *options.scale);
  if (options.window < 0 || (options.window > 0 && !options.causal)) {
    fail(op, {.argument = "window",
              .expected = "at least 0, and causal attention for more",
              .found = std::to_string(options.window)});
  }
  if (!(options.softcap >= 0) || std::isinf(options.softcap)) {
    fail(op, {.argument = "softcap",
              .expected = "a finite number of at least 0",
              .found = fmt::format("{}", options.softcap)});
  }
  require_between(op, "dropout", options.dropout, 0, 1);
}

void check_offsets(const char* op, const char* argument, const std::vector<int64_t>& offsets,
                   int64_t rows) {
  const auto descent = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (!offsets.empty() && offsets.front() == 0 && offsets.back() == rows &&
      descent == offsets.end())
    return;
  std::string found = "none";
  if (descent != offsets.end()) {
    found = std::to_string(descent[0]) + " before " + std::to_string(descent[1]);
  } else if (!offsets.empty()) {
    found = std::to_string(offsets.front()) + " to " + std::to_string(offsets.back());
  }
  fail(op, {.argument = argument,
            .expected = "ascending offsets from 0 to " + std::to_string(rows),
            .found = found});
}

void refuse_mask(const char* op, const AttentionOptions& options) {
  if (options.mask.defined())
    fail(op, {.argument = "mask",
              .expected = "none where sequences are packed",
              .found = describe(options.mask)});
}

void refuse_documents(const char* op, const AttentionOptions& options) {
  if (options.documents.empty()) return;
  fail(op, {.argument = "documents",
            .expected = "none",
            .found = std::to_string(options.documents.size()) + " offsets",
            .hint = "packed_attention takes them, varlen_attention takes SequenceOffsets"});
}

bool needs_composite(const AttentionOptions& options, int64_t keys, Device device) {
  const bool changes_scores = options.softcap > 0 || (options.window > 0 && options.window < keys);
  // Kernels hide a key by a score of -inf, which a scale must not turn around.
  const bool has_kernel =
      backend::capabilities(device).has_score_options && options.scale.value_or(1) > 0;
  return (changes_scores && !has_kernel) || options.mask.defined() || options.dropout > 0;
}

double scale_of(const AttentionOptions& options, int64_t dim) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
}

bool matmuls_in_tf32() { return amp::matmul_precision() == amp::MatmulPrecision::high; }

void packed_backward(backend::AttentionBackward args, const Tensor& dqkv, const GradSlot& slot) {
  const auto receiver = gradient_sums(slot, dqkv.dtype());
  Tensor sums;
  if (receiver != nullptr && backend::sums_gradients(args, dqkv.device())) {
    const int64_t channels = dqkv.size(2), dim = args.q.shape[3];
    sums = Tensor::empty({channels}, accumulation_type(dqkv), dqkv.device());
    args.sums = viewed(sums, {channels / dim, dim});
  }
  backend::of(dqkv).attention.backward(args);
  if (sums.defined()) receiver->set(dqkv, sums);
}

Tensor unit_last_stride(const Tensor& x) {
  return x.size(-1) <= 1 || x.strides().back() == 1 ? x : dense(x);
}

}  // namespace ops

namespace {

using namespace ops;

void check_mask(const char* op, const Tensor& mask, const Tensor& q, int64_t keys) {
  if (!mask.defined()) return;
  require_device(op, "mask", mask, q);
  const Shape scores{q.size(0), q.size(1), q.size(2), keys};
  bool broadcasts = mask.rank() <= scores.rank();
  for (int axis = 1; broadcasts && axis <= mask.rank(); ++axis) {
    const int64_t size = mask.size(-axis);
    broadcasts = size == 1 || size == scores[scores.rank() - axis];
  }
  if (broadcasts && (mask.dtype() == DType::boolean || is_compute(mask.dtype()))) return;
  fail(op, {.argument = "mask",
            .expected = "boolean or floating-point, broadcast to " + to_string(scores),
            .found = describe(mask)});
}

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionOptions& options) {
  const char* op = "scaled_dot_product_attention";
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    require_compute(op, name, *x);
    require_rank(op, name, *x, 4);
  }
  require_shape(op, "v", v, k.shape());
  if (k.size(0) != q.size(0) || k.size(3) != q.size(3)) {
    fail(op, {.argument = "k",
              .expected = "q's batch and dim",
              .found = describe(k) + " for q " + describe(q)});
  }
  if (k.size(1) == 0 || q.size(1) % k.size(1) != 0) {
    fail(op, {.argument = "heads",
              .expected = "q's a multiple of k's",
              .found = describe(q) + " and " + describe(k)});
  }
  check_options(op, options);
  check_mask(op, options.mask, q, k.size(2));
  refuse_documents(op, options);
}

// Heads `first` .. `first + count` of a packed buffer as [batch, count, tokens, dim].
Tensor packed_heads(const Tensor& packed, int64_t first, int64_t count, int64_t dim) {
  const Strides& in = packed.strides();
  return packed.strided({packed.size(0), count, packed.size(1), dim}, {in[0], dim, in[1], 1},
                        packed.offset() + first * dim);
}

int64_t check_packed(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                     const AttentionOptions& options) {
  const char* op = "packed_attention";
  require_compute(op, "qkv", qkv);
  require_rank(op, "qkv", qkv, 3);
  check_options(op, options);
  if (!options.documents.empty()) {
    check_offsets(op, "documents", options.documents, qkv.size(0) * qkv.size(1));
    refuse_mask(op, options);
  }
  if (options.bounds.defined()) {
    require_device(op, "bounds", options.bounds, qkv);
    if (options.bounds.dtype() != DType::i64 || !options.bounds.is_dense())
      fail(
          op,
          {.argument = "bounds", .expected = "i64, contiguous", .found = describe(options.bounds)});
    require_shape(op, "bounds", options.bounds, {qkv.size(0) * qkv.size(1), 2});
    refuse_mask(op, options);
  }
  // Heads cannot outnumber channels; checking this first keeps the sum below from overflowing.
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 ||
      heads > std::max<int64_t>(qkv.size(2), 1)) {
    fail(op, {.argument = "heads",
              .expected = "a multiple of kv_heads that " + describe(qkv) + " has room for",
              .found = std::to_string(heads) + " and " + std::to_string(kv_heads)});
  }
  const int64_t parts = heads + 2 * kv_heads;
  if (qkv.size(2) % parts != 0) {
    fail(op, {.argument = "qkv",
              .expected = "a last axis of " + std::to_string(parts) + " heads",
              .found = describe(qkv)});
  }
  return qkv.size(2) / parts;
}

// Without kernels that read bounds.
void require_offsets(const AttentionOptions& options) {
  if (options.bounds.defined() && options.documents.empty())
    fail("packed_attention", {.argument = "documents",
                              .expected = "offsets, as no kernel here reads bounds",
                              .found = "bounds alone"});
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check_attention(q, k, v, options);
  if (needs_composite(options, k.size(2), q.device())) return chunked_attention(q, k, v, options);
  const Call call(Op::scaled_dot_product_attention, {q, k, v});
  require_same_dtype("scaled_dot_product_attention", call[0], call[1]);
  require_same_dtype("scaled_dot_product_attention", call[0], call[2]);
  const Tensor qs = unit_last_stride(call[0]), ks = unit_last_stride(call[1]),
               vs = unit_last_stride(call[2]);
  const Tensor y = Tensor::empty(q.shape(), qs.dtype(), q.device());
  const Tensor lse =
      Tensor::empty({q.size(0), q.size(1), q.size(2)}, accumulation_type(qs), q.device());
  const double scale = scale_of(options, q.size(3));
  const bool tf32 = matmuls_in_tf32();
  backend::of(q).attention.forward({.q = qs,
                                    .k = ks,
                                    .v = vs,
                                    .scale = scale,
                                    .causal = options.causal,
                                    .tf32 = tf32,
                                    .window = options.window,
                                    .softcap = options.softcap,
                                    .out = y,
                                    .lse = lse});
  return call.result(y, [=, causal = options.causal, window = options.window,
                         softcap = options.softcap, q = Saved(qs), k = Saved(ks), v = Saved(vs),
                         y = Saved(y)](const Tensor& dy, GradSlots dx) {
    const Tensor dq = Tensor::empty(q->shape(), q->dtype(), dy.device());
    const Tensor dk = Tensor::empty(k->shape(), k->dtype(), dy.device()),
                 dv = Tensor::empty_like(dk);
    backend::of(dy).attention.backward({.dout = dense(dy),
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .out = y,
                                        .lse = lse,
                                        .scale = scale,
                                        .causal = causal,
                                        .tf32 = tf32,
                                        .window = window,
                                        .softcap = softcap,
                                        .dq = dq,
                                        .dk = dk,
                                        .dv = dv});
    dx[0].add(dq);
    dx[1].add(dk);
    dx[2].add(dv);
  });
}

Tensor scaled_dot_product_attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                              const AttentionOptions& options) {
  check_attention(q, k, v, options);
  Composite call(Op::scaled_dot_product_attention, {q, k, v});
  const int64_t group = q.size(1) / k.size(1), queries = q.size(2), keys = k.size(2),
                dim = q.size(3);
  const DType wide = accumulation_type(call[0]);
  // Each key head serves a group of query heads.
  const auto grouped = [&](const Tensor& x) {
    const Tensor spread =
        expand(unsqueeze(cast(x, wide), 2), {x.size(0), x.size(1), group, keys, dim});
    return reshape(spread, {x.size(0), x.size(1) * group, keys, dim});
  };
  Tensor scores =
      mul(matmul(cast(call[0], wide), transpose(grouped(call[1]), 2, 3)), scale_of(options, dim));
  if (options.softcap > 0) scores = mul(tanh(mul(scores, 1 / options.softcap)), options.softcap);
  const Tensor masked = full({}, -std::numeric_limits<double>::infinity(), wide, q.device());
  if (options.causal) {
    const Tensor row = unsqueeze(arange(queries, DType::i64, q.device()), 1);
    const Tensor column = arange(keys, DType::i64, q.device());
    const Tensor last = row + full({}, static_cast<double>(keys - queries), DType::i64, q.device());
    scores = where(less_equal(column, last), scores, masked);
    if (options.window > 0) {
      const Tensor first_hidden =
          last + full({}, -static_cast<double>(options.window), DType::i64, q.device());
      scores = where(less_equal(column, first_hidden), masked, scores);
    }
  }
  if (options.mask.defined()) {
    scores = options.mask.dtype() == DType::boolean ? where(options.mask, scores, masked)
                                                    : scores + cast(options.mask, wide);
  }
  // A query that sees no key gives zeros, and zero gradients, rather than 0 / 0.
  const bool hides = keys > 0 && (options.causal || options.mask.defined());
  const Tensor zero = full({}, 0, wide, q.device());
  Tensor hidden;
  if (hides) {
    hidden = eq(max(scores.detach(), -1, true), masked);
    scores = where(hidden, zero, scores);
  }
  Tensor weights = softmax(scores);
  if (hides) weights = where(hidden, zero, weights);
  weights = dropout(weights, options.dropout);
  return call.result(cast(matmul(weights, grouped(call[2])), call[0].dtype()));
}

Tensor packed_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                        const AttentionOptions& options) {
  const int64_t dim = check_packed(qkv, heads, kv_heads, options);
  const std::optional<DeviceDocuments> on_device = device_documents(qkv, dim, options);
  if (on_device) return packed_documents(qkv, {heads, kv_heads, dim}, options, on_device);
  require_offsets(options);
  // A document may span rows of the batch.
  const int64_t most_keys = options.documents.empty() ? qkv.size(1) : qkv.size(0) * qkv.size(1);
  if (needs_composite(options, most_keys, qkv.device()))
    return packed_attention_by(chunked_attention, qkv, {heads, kv_heads, dim}, options);
  if (!options.documents.empty())
    return packed_documents(qkv, {heads, kv_heads, dim}, options, std::nullopt);
  const Call call(Op::packed_attention, {qkv});
  const Tensor in = dense(call[0]);
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  const Tensor y = Tensor::empty({batch, tokens, heads * dim}, in.dtype(), in.device());
  const Tensor lse = Tensor::empty({batch, heads, tokens}, accumulation_type(in), in.device());
  const double scale = scale_of(options, dim);
  const bool tf32 = matmuls_in_tf32();
  const auto queries = [=](const Tensor& x) { return packed_heads(x, 0, heads, dim); };
  const auto keys = [=](const Tensor& x) { return packed_heads(x, heads, kv_heads, dim); };
  const auto values = [=](const Tensor& x) {
    return packed_heads(x, heads + kv_heads, kv_heads, dim);
  };
  backend::of(in).attention.forward({.q = queries(in),
                                     .k = keys(in),
                                     .v = values(in),
                                     .scale = scale,
                                     .causal = options.causal,
                                     .tf32 = tf32,
                                     .window = options.window,
                                     .softcap = options.softcap,
                                     .out = queries(y),
                                     .lse = lse});
  Tensor result = call.result(
      y, [=, causal = options.causal, window = options.window, softcap = options.softcap,
          qkv = Saved(in), y = Saved(y)](const Tensor& dy, GradSlots dx) {
        const Tensor dqkv = Tensor::empty_like(qkv.get()), dout = dense(dy);
        const backend::AttentionBackward args{.dout = queries(dout),
                                              .q = queries(qkv),
                                              .k = keys(qkv),
                                              .v = values(qkv),
                                              .out = queries(y),
                                              .lse = lse,
                                              .scale = scale,
                                              .causal = causal,
                                              .tf32 = tf32,
                                              .window = window,
                                              .softcap = softcap,
                                              .dq = queries(dqkv),
                                              .dk = keys(dqkv),
                                              .dv = values(dqkv)};
        packed_backward(args, dqkv, dx[0]);
        dx[0].add(dqkv);
      });
  mark_kept(result);
  return result;
}

Tensor ops::packed_attention_by(AttendByOps attend, const Tensor& qkv, const HeadCounts& counts,
                                const AttentionOptions& options) {
  const auto [heads, kv_heads, dim] = counts;
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  const auto parts = split(qkv, {heads * dim, kv_heads * dim, kv_heads * dim}, 2);
  if (!options.documents.empty()) {
    const auto rows = [&, dim = dim](const Tensor& x, int64_t count) {
      return reshape(x, {batch * tokens, count, dim});
    };
    AttentionOptions of_one = options;
    of_one.documents.clear();
    const Tensor y = varlen_attention_by(attend, rows(parts[0], heads), rows(parts[1], kv_heads),
                                         rows(parts[2], kv_heads), {options.documents}, of_one);
    return reshape(y, {batch, tokens, heads * dim});
  }
  const auto as_heads = [&, dim = dim](const Tensor& x, int64_t count) {
    return transpose(reshape(x, {batch, tokens, count, dim}), 1, 2);
  };
  const Tensor y = attend(as_heads(parts[0], heads), as_heads(parts[1], kv_heads),
                          as_heads(parts[2], kv_heads), options);
  return reshape(transpose(y, 1, 2), {batch, tokens, heads * dim});
}

Tensor packed_attention_composite(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                                  const AttentionOptions& options) {
  const int64_t dim = check_packed(qkv, heads, kv_heads, options);
  require_offsets(options);
  return packed_attention_by(scaled_dot_product_attention_composite, qkv, {heads, kv_heads, dim},
                             options);
}

Tensor decode_attention(const Tensor& qkv, const DecodeCache& cache, std::optional<double> scale) {
  const char* op = "decode_attention";
  require_compute(op, "qkv", qkv);
  require_rank(op, "qkv", qkv, 3);
  require_rank(op, "keys", cache.keys, 4);
  require_shape(op, "values", cache.values, cache.keys.shape());
  require_same_dtype(op, qkv, cache.keys);
  const int64_t kv_heads = cache.keys.size(1), dim = cache.keys.size(3);
  const int64_t heads = qkv.size(2) / std::max<int64_t>(dim, 1) - 2 * kv_heads;
  if (qkv.size(0) != cache.keys.size(0) || qkv.size(1) != 1 || heads < 1 || heads % kv_heads != 0 ||
      qkv.size(2) != (heads + 2 * kv_heads) * dim) {
    fail(op, {.argument = "qkv",
              .expected = "one token per sequence of the cache, a multiple of its heads",
              .found = describe(qkv) + " for a cache " + describe(cache.keys)});
  }
  if (cache.position.dtype() != DType::i64 || cache.position.numel() != 1)
    fail(op, {.argument = "position", .expected = "i64 [1]", .found = describe(cache.position)});
  for (const Tensor* x : {&cache.keys, &cache.values, &cache.position})
    require_device(op, "cache", *x, qkv);
  const Tensor in = dense(qkv.detach());
  const Tensor y = Tensor::empty({qkv.size(0), 1, heads * dim}, in.dtype(), in.device());
  backend::of(in).attention.decode({.qkv = in,
                                    .cosine = cache.cosine,
                                    .sine = cache.sine,
                                    .position = cache.position,
                                    .scale = scale_of({.scale = scale}, dim),
                                    .tf32 = matmuls_in_tf32(),
                                    .keys = cache.keys,
                                    .values = cache.values,
                                    .out = y});
  return y;
}

}  // namespace binade
