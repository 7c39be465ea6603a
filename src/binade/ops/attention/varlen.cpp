#include <algorithm>
#include <span>
#include <utility>

#include "binade/backend/capabilities.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/attention/common.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/shape/shape.h"

// Attention of sequences that are stored one after the other.
namespace binade {
namespace {

using namespace ops;

// Rows `begin` .. `end` of x [rows, heads, dim] as one batch entry, [1, heads, end - begin, dim].
Tensor sequence_of(const Tensor& x, int64_t begin, int64_t end) {
  const Strides& in = x.strides();
  return x.strided({1, x.size(1), end - begin, x.size(2)}, {0, in[1], in[0], in[2]},
                   x.offset() + begin * in[0]);
}

// Kernels of documents read and write some bytes at a time.
bool is_aligned(const Tensor& x) {
  const auto alignment = static_cast<uintptr_t>(backend::capabilities(x.device()).alignment);
  return reinterpret_cast<uintptr_t>(x.raw_data()) % alignment == 0;
}
Tensor aligned(const Tensor& x) { return is_aligned(x) ? x : clone(x); }

// Attention of packed sequences: q and out [queries, heads, dim]; k and v [keys, kv_heads, dim].
// The kernels get one call for each sequence, or one for all if the device has kernels for
// documents. lse, [heads, rows] of each call in turn, is kept for the backward.
class PackedSequences {
 public:
  PackedSequences(SequenceOffsets offsets, const AttentionOptions& options, int64_t dim,
                  std::optional<DeviceDocuments> on_device = std::nullopt)
      : offsets_(std::move(offsets)),
        on_device_(std::move(on_device)),
        scale_(scale_of(options, dim)),
        causal_(options.causal),
        tf32_(matmuls_in_tf32()),
        window_(options.window),
        softcap_(options.softcap) {
    if (offsets_.keys.empty()) offsets_.keys = offsets_.queries;
  }

  void forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out) {
    lse_ = Tensor::empty({q.size(0), q.size(1)}, accumulation_type(q), q.device());
    if (on_device_) {
      backend::of(q).attention.forward({.q = sequence_of(q, 0, q.size(0)),
                                        .k = sequence_of(k, 0, k.size(0)),
                                        .v = sequence_of(v, 0, v.size(0)),
                                        .scale = scale_,
                                        .causal = causal_,
                                        .documents = on_device_->rows(),
                                        .out = sequence_of(out, 0, out.size(0)),
                                        .lse = lse_of(0, q.size(0))});
      return;
    }
    std::vector<backend::AttentionForward> calls;
    for_each([&](int64_t query, int64_t query_end, int64_t key, int64_t key_end) {
      calls.push_back({.q = sequence_of(q, query, query_end),
                       .k = sequence_of(k, key, key_end),
                       .v = sequence_of(v, key, key_end),
                       .scale = scale_,
                       .causal = causal_,
                       .tf32 = tf32_,
                       .window = window_,
                       .softcap = softcap_,
                       .out = sequence_of(out, query, query_end),
                       .lse = lse_of(query, query_end)});
    });
    backend::of(q).attention.forward_each(calls);
  }

  struct Backward {
    Tensor dout, q, k, v, out, dq, dk, dv;
  };
  // The call for all sequences. Only with documents on the device.
  backend::AttentionBackward call(const Backward& x) const {
    const auto all = [](const Tensor& rows) { return sequence_of(rows, 0, rows.size(0)); };
    return {.dout = all(x.dout),
            .q = all(x.q),
            .k = all(x.k),
            .v = all(x.v),
            .out = all(x.out),
            .lse = lse_of(0, x.q.size(0)),
            .scale = scale_,
            .causal = causal_,
            .documents = on_device_->rows(),
            .dq = all(x.dq),
            .dk = all(x.dk),
            .dv = all(x.dv)};
  }
  void backward(const Backward& x) const {
    if (on_device_) return backend::of(x.q).attention.backward(call(x));
    std::vector<backend::AttentionBackward> calls;
    for_each([&](int64_t query, int64_t query_end, int64_t key, int64_t key_end) {
      calls.push_back({.dout = sequence_of(x.dout, query, query_end),
                       .q = sequence_of(x.q, query, query_end),
                       .k = sequence_of(x.k, key, key_end),
                       .v = sequence_of(x.v, key, key_end),
                       .out = sequence_of(x.out, query, query_end),
                       .lse = lse_of(query, query_end),
                       .scale = scale_,
                       .causal = causal_,
                       .tf32 = tf32_,
                       .window = window_,
                       .softcap = softcap_,
                       .dq = sequence_of(x.dq, query, query_end),
                       .dk = sequence_of(x.dk, key, key_end),
                       .dv = sequence_of(x.dv, key, key_end)});
    });
    backend::of(x.q).attention.backward_each(calls);
  }

 private:
  // Calls f(query, query_end, key, key_end) for each sequence that is not empty.
  template <class F>
  void for_each(F f) const {
    const std::vector<int64_t>&queries = offsets_.queries, &keys = offsets_.keys;
    for (size_t i = 0; i + 1 < queries.size(); ++i) {
      if (queries[i] < queries[i + 1] || keys[i] < keys[i + 1])
        f(queries[i], queries[i + 1], keys[i], keys[i + 1]);
    }
  }
  Tensor lse_of(int64_t query, int64_t end) const {
    return viewed(lse_.strided({(end - query) * lse_.size(1)}, {1}, query * lse_.size(1)),
                  {1, lse_.size(1), end - query});
  }

  SequenceOffsets offsets_;
  std::optional<DeviceDocuments> on_device_;
  double scale_;
  bool causal_, tf32_;
  int64_t window_;
  double softcap_;
  Tensor lse_;
};

// Heads of so many rows.
struct HeadRows {
  DType dtype;
  int64_t rows, dim;
  Device device;
};

// Whether the device attends within documents of such heads with these options.
bool has_kernel(const HeadRows& heads, const AttentionOptions& options) {
  // Kernels count rows in 32 bits and start a thread for each.
  constexpr int64_t most_rows = 1 << 20;
  const bool plain = options.softcap == 0 && !options.mask.defined() && options.dropout == 0;
  return plain && heads.rows > 0 && heads.rows < most_rows && scale_of(options, heads.dim) > 0 &&
         backend::attends_documents(heads.dtype, heads.dim, heads.device);
}

void check_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const SequenceOffsets& offsets,
                  const AttentionOptions& options) {
  const char* op = "varlen_attention";
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    require_compute(op, name, *x);
    require_rank(op, name, *x, 3);
  }
  require_shape(op, "v", v, k.shape());
  if (k.size(2) != q.size(2) || k.size(1) == 0 || q.size(1) % k.size(1) != 0) {
    fail(op, {.argument = "k",
              .expected = "q's dim, and heads that divide q's",
              .found = describe(k) + " for q " + describe(q)});
  }
  check_options(op, options);
  refuse_mask(op, options);
  refuse_documents(op, options);
  check_offsets(op, "queries", offsets.queries, q.size(0));
  if (offsets.keys.empty()) {
    require_shape(op, "k", k, {q.size(0), k.size(1), k.size(2)});
    return;
  }
  check_offsets(op, "keys", offsets.keys, k.size(0));
  if (offsets.keys.size() != offsets.queries.size()) {
    fail(op, {.argument = "keys",
              .expected = std::to_string(offsets.queries.size()) + " offsets, one per query offset",
              .found = std::to_string(offsets.keys.size())});
  }
}

// The sequences of varlen_attention as documents; none if the device has no kernels for them.
std::optional<DeviceDocuments> varlen_documents(std::span<const Tensor> inputs,
                                                const SequenceOffsets& offsets,
                                                const AttentionOptions& options) {
  const Tensor& q = inputs[0];
  const DType dtype = amp::input_type(Op::varlen_attention, inputs).value_or(q.dtype());
  const bool same_keys = offsets.keys.empty() || offsets.keys == offsets.queries;
  if (!same_keys || !has_kernel({dtype, q.size(0), q.size(2), q.device()}, options))
    return std::nullopt;
  const bool fits = std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& x) {
    const Strides& strides = x.strides();
    return x.dtype() == q.dtype() && is_aligned(x) && strides[0] % 8 == 0 && strides[1] % 8 == 0 &&
           strides[2] == 1;
  });
  if (!fits) return std::nullopt;
  return DeviceDocuments{.bounds = to(document_bounds(offsets.queries), q.device()),
                         .window = options.window};
}

}  // namespace

Tensor document_bounds(const std::vector<int64_t>& documents) {
  const int64_t rows = documents.empty() ? 0 : documents.back();
  const Tensor bounds = Tensor::empty({rows, 2}, DType::i64);
  auto* out = bounds.mutable_data<int64_t>();
  for (size_t i = 0; i + 1 < documents.size(); ++i) {
    for (int64_t row = documents[i]; row < documents[i + 1]; ++row) {
      *out++ = row - documents[i];
      *out++ = documents[i + 1] - row;
    }
  }
  return bounds;
}

std::optional<DeviceDocuments> ops::device_documents(const Tensor& qkv, int64_t dim,
                                                     const AttentionOptions& options) {
  const int64_t tokens = qkv.size(1);
  const bool has_documents = !options.documents.empty() || options.bounds.defined();
  const bool has_window = options.window > 0 && options.window < tokens;
  // The kernels for whole sequences want full tiles.
  if (!has_documents && !has_window && tokens % 128 == 0) return std::nullopt;
  const Tensor inputs[] = {qkv};
  const DType dtype = amp::input_type(Op::packed_attention, inputs).value_or(qkv.dtype());
  const HeadRows heads{dtype, qkv.size(0) * tokens, dim, qkv.device()};
  if (!has_kernel(heads, options) || !is_aligned(qkv)) return std::nullopt;
  if (!has_documents) return DeviceDocuments{.length = tokens, .window = options.window};
  return DeviceDocuments{.bounds = options.bounds.defined()
                                       ? options.bounds
                                       : to(document_bounds(options.documents), qkv.device()),
                         .window = options.window};
}

Tensor ops::packed_documents(const Tensor& qkv, const HeadCounts& counts,
                             const AttentionOptions& options,
                             const std::optional<DeviceDocuments>& on_device) {
  const Call call(Op::packed_attention, {qkv});
  const Tensor in = dense(call[0]);
  const int64_t rows = qkv.size(0) * qkv.size(1), dim = counts.dim;
  // Heads of a dense buffer as [rows, count, dim].
  const auto part = [=](const Tensor& x, int64_t first, int64_t count) {
    return x.strided({rows, count, dim}, {x.size(2), dim, 1}, x.offset() + first * dim);
  };
  const auto queries = [=](const Tensor& x) { return part(x, 0, counts.heads); };
  const auto keys = [=](const Tensor& x) { return part(x, counts.heads, counts.kv_heads); };
  const auto values = [=](const Tensor& x) {
    return part(x, counts.heads + counts.kv_heads, counts.kv_heads);
  };
  const Tensor y =
      Tensor::empty({qkv.size(0), qkv.size(1), counts.heads * dim}, in.dtype(), in.device());
  PackedSequences sequences({options.documents}, options, dim, on_device);
  sequences.forward(queries(in), keys(in), values(in), queries(y));
  const bool one_call = on_device.has_value();
  Tensor result =
      call.result(y, [=, qkv = Saved(in), y = Saved(y)](const Tensor& dy, GradSlots dx) {
        const Tensor dqkv = Tensor::empty_like(qkv.get());
        const PackedSequences::Backward args{.dout = queries(aligned(dense(dy))),
                                             .q = queries(qkv),
                                             .k = keys(qkv),
                                             .v = values(qkv),
                                             .out = queries(y),
                                             .dq = queries(dqkv),
                                             .dk = keys(dqkv),
                                             .dv = values(dqkv)};
        if (one_call) {
          packed_backward(sequences.call(args), dqkv, dx[0]);
        } else {
          sequences.backward(args);
        }
        dx[0].add(dqkv);
      });
  if (one_call) mark_kept(result);
  return result;
}

Tensor varlen_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const SequenceOffsets& offsets, const AttentionOptions& options) {
  check_varlen(q, k, v, offsets, options);
  const Tensor inputs[] = {q, k, v};
  const std::optional<DeviceDocuments> on_device = varlen_documents(inputs, offsets, options);
  if (!on_device && needs_composite(options, k.size(0), q.device()))
    return varlen_attention_by(chunked_attention, q, k, v, offsets, options);
  const Call call(Op::varlen_attention, {q, k, v});
  require_same_dtype("varlen_attention", call[0], call[1]);
  require_same_dtype("varlen_attention", call[0], call[2]);
  const Tensor qs = unit_last_stride(call[0]), ks = unit_last_stride(call[1]),
               vs = unit_last_stride(call[2]);
  const Tensor y = Tensor::empty(q.shape(), qs.dtype(), q.device());
  PackedSequences sequences(offsets, options, q.size(2), on_device);
  sequences.forward(qs, ks, vs, y);
  return call.result(y, [=, q = Saved(qs), k = Saved(ks), v = Saved(vs), y = Saved(y)](
                            const Tensor& dy, GradSlots dx) {
    const Tensor dq = Tensor::empty(q->shape(), q->dtype(), dy.device());
    const Tensor dk = Tensor::empty(k->shape(), k->dtype(), dy.device()),
                 dv = Tensor::empty_like(dk);
    sequences.backward({.dout = aligned(dense(dy)),
                        .q = q,
                        .k = k,
                        .v = v,
                        .out = y,
                        .dq = dq,
                        .dk = dk,
                        .dv = dv});
    dx[0].add(dq);
    dx[1].add(dk);
    dx[2].add(dv);
  });
}

Tensor ops::varlen_attention_by(AttendByOps attend, const Tensor& q, const Tensor& k,
                                const Tensor& v, const SequenceOffsets& offsets,
                                const AttentionOptions& options) {
  Composite call(Op::varlen_attention, {q, k, v});
  const std::vector<int64_t>&queries = offsets.queries,
        &keys = offsets.keys.empty() ? queries : offsets.keys;
  const auto sequence = [](const Tensor& x, int64_t begin, int64_t end) {
    return unsqueeze(transpose(slice(x, 0, begin, end), 0, 1), 0);
  };
  std::vector<Tensor> parts;
  for (size_t i = 0; i + 1 < queries.size(); ++i) {
    const Tensor y = attend(sequence(call[0], queries[i], queries[i + 1]),
                            sequence(call[1], keys[i], keys[i + 1]),
                            sequence(call[2], keys[i], keys[i + 1]), options);
    parts.push_back(transpose(squeeze(y, 0), 0, 1));
  }
  return call.result(parts.empty() ? call[0] : cat(parts, 0));
}

Tensor varlen_attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const SequenceOffsets& offsets, const AttentionOptions& options) {
  check_varlen(q, k, v, offsets, options);
  return varlen_attention_by(scaled_dot_product_attention_composite, q, k, v, offsets, options);
}

}  // namespace binade
