#include "binade/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/autograd/op_observer.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/common.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"
#include "binade/ops/matmul.h"
#include "binade/ops/shape.h"
#include "binade/ops/softmax.h"
#include "binade/ops/unary.h"

namespace binade {
namespace {

using namespace ops;

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
              .found = std::to_string(options.softcap)});
  }
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
}

// The kernels know neither windows nor caps. A window that no query reaches the end of is none.
bool needs_composite(const AttentionOptions& options, int64_t keys) {
  return options.softcap > 0 || (options.window > 0 && options.window < keys);
}

double scale_of(const AttentionOptions& options, int64_t dim) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
}

bool matmuls_in_tf32() { return amp::matmul_precision() == amp::MatmulPrecision::high; }

Tensor unit_last_stride(const Tensor& x) {
  return x.size(-1) <= 1 || x.strides().back() == 1 ? x : dense(x);
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

int64_t check_rope(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
                   int64_t rotated) {
  require_compute("rope", "x", x);
  require_rank("rope", "x", x, 4);
  require_rank("rope", "cosine", cosine, 2);
  require_shape("rope", "sine", sine, cosine.shape());
  for (const auto& [argument, table] : {std::pair("cosine", &cosine), std::pair("sine", &sine)}) {
    if (table->dtype() != DType::f32)
      fail("rope", {.argument = argument, .expected = "f32", .found = describe(*table)});
    require_device("rope", argument, *table, x);
  }
  if (x.size(3) % 2 != 0 || cosine.size(1) != x.size(3) / 2) {
    fail("rope", {.argument = "cosine",
                  .expected = "[positions, half of x's dim]",
                  .found = describe(cosine) + " for x " + describe(x)});
  }
  if (start < 0 || start > cosine.size(0) - x.size(1)) {
    fail("rope", {.argument = "start",
                  .expected = "positions inside a table of " + std::to_string(cosine.size(0)),
                  .found = std::to_string(start) + " + " + std::to_string(x.size(1)) + " tokens",
                  .hint = "the model's context is shorter than this sequence"});
  }
  if (rotated > x.size(2)) {
    fail("rope", {.argument = "rotated",
                  .expected = "at most the heads of " + describe(x),
                  .found = std::to_string(rotated)});
  }
  return rotated < 0 ? x.size(2) : rotated;
}

// Tables, first position and number of rotated heads of a rope call.
struct Rotation {
  Tensor cosine, sine;
  int64_t start, rotated;
  bool inverse = false;
};

// Rotates dense x into y, which may be x.
void rotate(const Tensor& in, const Tensor& y, const Rotation& rotation) {
  const int64_t rotated = rotation.rotated;
  const auto heads = [](const Tensor& t, int64_t first, int64_t count) {
    return t.strided({t.size(0), t.size(1), count, t.size(3)}, t.strides(),
                     t.offset() + first * t.strides()[2]);
  };
  backend::of(in).attention.rope({.x = heads(in, 0, rotated),
                                  .cosine = rotation.cosine,
                                  .sine = rotation.sine,
                                  .start = rotation.start,
                                  .inverse = rotation.inverse,
                                  .y = heads(y, 0, rotated)});
  const int64_t rest = in.size(2) - rotated;
  if (rest > 0 && in.raw_data() != y.raw_data())
    backend::of(in).elementwise.copy(heads(in, rotated, rest), heads(y, rotated, rest));
}

// The gradient, in dy's own memory if nothing else reads that.
Tensor rotate_back(const Tensor& dy, Rotation rotation) {
  rotation.inverse = true;
  const bool in_place = dy.is_sole_owner() && autograd::op_observer() == nullptr;
  const Tensor in = dense(dy);
  const Tensor dx = in_place ? in : Tensor::empty_like(in);
  rotate(in, dx, rotation);
  return dx;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    AttentionOptions options) {
  check_attention(q, k, v, options);
  if (needs_composite(options, k.size(2)))
    return scaled_dot_product_attention_composite(q, k, v, options);
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
                                    .out = y,
                                    .lse = lse});
  return call.result(y, [=, causal = options.causal, q = Saved(qs), k = Saved(ks), v = Saved(vs),
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
                                        .dq = dq,
                                        .dk = dk,
                                        .dv = dv});
    dx[0].add(dq);
    dx[1].add(dk);
    dx[2].add(dv);
  });
}

Tensor scaled_dot_product_attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                              AttentionOptions options) {
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
  Tensor hidden_rows;
  if (options.causal) {
    const Tensor row = unsqueeze(arange(queries, DType::i64, q.device()), 1);
    const Tensor column = arange(keys, DType::i64, q.device());
    const Tensor last = row + full({}, static_cast<double>(keys - queries), DType::i64, q.device());
    const Tensor masked = full({}, -std::numeric_limits<double>::infinity(), wide, q.device());
    scores = where(less_equal(column, last), scores, masked);
    if (options.window > 0) {
      const Tensor first_hidden =
          last + full({}, -static_cast<double>(options.window), DType::i64, q.device());
      scores = where(less_equal(column, first_hidden), masked, scores);
    }
    hidden_rows = less(last, full({}, 0, DType::i64, q.device()));
  }
  Tensor weights = softmax(scores);
  // A query that sees no key gives zeros rather than 0 / 0.
  if (hidden_rows.defined()) weights = where(hidden_rows, full({}, 0, wide, q.device()), weights);
  return call.result(cast(matmul(weights, grouped(call[2])), call[0].dtype()));
}

Tensor packed_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                        AttentionOptions options) {
  const int64_t dim = check_packed(qkv, heads, kv_heads, options);
  if (needs_composite(options, qkv.size(1)))
    return packed_attention_composite(qkv, heads, kv_heads, options);
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
                                     .out = queries(y),
                                     .lse = lse});
  return call.result(y, [=, causal = options.causal, qkv = Saved(in), y = Saved(y)](
                            const Tensor& dy, GradSlots dx) {
    const Tensor dqkv = Tensor::empty_like(qkv.get());
    backend::of(dy).attention.backward({.dout = queries(dense(dy)),
                                        .q = queries(qkv),
                                        .k = keys(qkv),
                                        .v = values(qkv),
                                        .out = queries(y),
                                        .lse = lse,
                                        .scale = scale,
                                        .causal = causal,
                                        .tf32 = tf32,
                                        .dq = queries(dqkv),
                                        .dk = keys(dqkv),
                                        .dv = values(dqkv)});
    dx[0].add(dqkv);
  });
}

Tensor packed_attention_composite(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                                  AttentionOptions options) {
  const int64_t dim = check_packed(qkv, heads, kv_heads, options);
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  const auto parts = split(qkv, {heads * dim, kv_heads * dim, kv_heads * dim}, 2);
  const auto as_heads = [&](const Tensor& x, int64_t count) {
    return transpose(reshape(x, {batch, tokens, count, dim}), 1, 2);
  };
  const Tensor y = scaled_dot_product_attention_composite(as_heads(parts[0], heads),
                                                          as_heads(parts[1], kv_heads),
                                                          as_heads(parts[2], kv_heads), options);
  return reshape(transpose(y, 1, 2), {batch, tokens, heads * dim});
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

std::pair<Tensor, Tensor> rope_tables(int64_t positions, int64_t dim, double theta, Device device) {
  if (positions < 1 || dim < 2 || dim % 2 != 0 || !(theta > 0) || std::isinf(theta)) {
    fail("rope_tables", {.argument = "positions, dim, theta",
                         .expected = "at least 1, an even number, a finite number more than 0",
                         .found = std::to_string(positions) + ", " + std::to_string(dim) + ", " +
                                  std::to_string(theta)});
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) {
    // Rounded to f32 as in other implementations, so that their checkpoints give the same angles.
    frequencies.push_back(static_cast<float>(
        1 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(dim))));
  }
  return rope_tables(positions, frequencies, device);
}

std::pair<Tensor, Tensor> rope_tables(int64_t positions, std::span<const float> frequencies,
                                      Device device) {
  const auto half = static_cast<int64_t>(frequencies.size());
  if (positions < 1 || half < 1) {
    fail("rope_tables", {.argument = "positions, frequencies",
                         .expected = "at least 1",
                         .found = std::to_string(positions) + ", " + std::to_string(half)});
  }
  if (device.is_meta())
    return {Tensor::empty({positions, half}, DType::f32, device),
            Tensor::empty({positions, half}, DType::f32, device)};
  const Tensor cosine = Tensor::empty({positions, half}, DType::f32),
               sine = Tensor::empty_like(cosine);
  auto* const cosines = cosine.mutable_data<float>();
  auto* const sines = sine.mutable_data<float>();
  for (int64_t i = 0; i < half; ++i) {
    for (int64_t position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position) * frequencies[static_cast<size_t>(i)];
      cosines[position * half + i] = std::cos(angle);
      sines[position * half + i] = std::sin(angle);
    }
  }
  return {to(cosine, device), to(sine, device)};
}

Tensor rope(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
            int64_t rotated_given) {
  const Rotation rotation{cosine, sine, start, check_rope(x, cosine, sine, start, rotated_given)};
  const Call call(Op::rope, {x});
  const Tensor in = dense(call[0]);
  const Tensor y = Tensor::empty_like(in);
  rotate(in, y, rotation);
  return call.result(y,
                     [=](const Tensor& dy, GradSlots dx) { dx[0].add(rotate_back(dy, rotation)); });
}

Tensor rope_(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
             int64_t rotated_given) {
  // An observer may look at x later.
  if (autograd::op_observer() != nullptr) return rope(x, cosine, sine, start, rotated_given);
  const Rotation rotation{cosine, sine, start, check_rope(x, cosine, sine, start, rotated_given)};
  const Call call(Op::rope, {x});
  const Tensor y = dense(call[0]).detach();
  rotate(y, y, rotation);
  y.bump_version();
  return call.result(y,
                     [=](const Tensor& dy, GradSlots dx) { dx[0].add(rotate_back(dy, rotation)); });
}

Tensor rope_composite(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t start,
                      int64_t rotated_given) {
  const int64_t rotated = check_rope(x, cosine, sine, start, rotated_given);
  Composite call(Op::rope, {x});
  const int64_t tokens = x.size(1), half = x.size(3) / 2;
  const auto table = [&](const Tensor& values) {
    return reshape(slice(values, 0, start, start + tokens), {1, tokens, 1, half});
  };
  const Tensor in = slice(call[0], 2, 0, rotated), rest = slice(call[0], 2, rotated, x.size(2));
  const Tensor wide = cast(in, accumulation_type(in));
  const Tensor a = slice(wide, 3, 0, half), b = slice(wide, 3, half, 2 * half);
  const Tensor c = table(cosine), s = table(sine);
  const Tensor y = cat({a * c - b * s, b * c + a * s}, 3);
  return call.result(cat({cast(y, call[0].dtype()), rest}, 2));
}

}  // namespace binade
