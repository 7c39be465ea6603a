#ifdef BINADE_CUDNN

#include "binade/backend/cuda/attention/cudnn.h"

#include <algorithm>
#include <initializer_list>

#include "binade/backend/cuda/cudnn_plan.h"
#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda::cudnn {
namespace {

enum Uid : int64_t { uid_q = 1, uid_k, uid_v, uid_out, uid_lse, uid_dout, uid_dq, uid_dk, uid_dv };

// cuDNN reads and writes 16 bytes at a time and does not check alignment.
bool aligned(const TensorView& x) {
  const int64_t elements = 16 / static_cast<int64_t>(size_of(x.dtype));
  bool fit = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.strides[3] == 1;
  for (int axis = 0; axis < 3; ++axis) fit = fit && x.strides[axis] % elements == 0;
  return fit;
}

bool supports(const TensorView& q, const TensorView& k, bool causal,
              std::initializer_list<const TensorView*> tensors) {
  if (q.dtype != DType::f16 && q.dtype != DType::bf16) return false;
  const int64_t queries = q.shape[2], keys = k.shape[2], dim = q.shape[3];
  if (q.numel() == 0 || k.numel() == 0 || dim % 8 != 0 || dim > 128) return false;
  // cuDNN does not return zeros for queries that see no key.
  if (causal && queries > keys) return false;
  if (properties().capability() < 80) return false;
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const TensorView* x) { return x->dtype == q.dtype && aligned(*x); });
}

// [batch, heads, queries] as cuDNN's statistics [batch, heads, queries, 1].
TensorView as_statistics(TensorView lse) {
  lse.shape.push_back(1);
  lse.strides.push_back(1);
  return lse;
}

// The options that forward and backward share.
template <class Options, class Call>
void describe_scores(Options& options, const Call& call) {
  options.set_attn_scale(static_cast<float>(call.scale));
  if (!call.causal) return;
  const bool square = call.q.shape[2] == call.k.shape[2];
  options
      .set_diagonal_alignment(square ? fe::DiagonalAlignment_t::TOP_LEFT
                                     : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
      .set_diagonal_band_right_bound(0);
}

bool finish(Graph& graph) { return graph.build(handle(), {fe::HeurMode_t::A}).is_good(); }

Key key_of(std::initializer_list<const TensorView*> tensors, double scale, bool causal) {
  Key key{causal};
  append(key, scale);
  for (const TensorView* x : tensors) append(key, *x);
  return key;
}

// Batch entries that one deterministic backward takes: cuDNN then stores the gradients of all
// scores in its workspace, which this bounds. A divisor of the batch, so that one plan fits all
// slices.
int64_t images_at_once(const TensorView& q, const TensorView& k) {
  // Little beside a training step's memory: the backward pass starts when the loss has returned the
  // memory of its logits. Larger slices fill the GPU better.
  const int64_t workspace_bytes = properties().memory / 40;
  const int64_t batch = q.shape[0];
  if (!deterministic()) return batch;
  const int64_t image = q.shape[1] * q.shape[2] * k.shape[2] * 2;
  int64_t images = std::clamp<int64_t>(workspace_bytes / image, 1, batch);
  while (batch % images != 0) --images;
  return images;
}

TensorView slice(TensorView x, int64_t first, int64_t count) {
  x.data = x.as<char>() + first * x.strides[0] * static_cast<int64_t>(size_of(x.dtype));
  x.shape[0] = count;
  return x;
}

struct AttentionPlans {
  Plans forward, backward;
};

// Per thread: a plan runs on a handle, which threads do not share.
AttentionPlans& attention_plans() {
  thread_local AttentionPlans plans;
  return plans;
}

bool backward_slice(const AttentionBackward& a) {
  const auto build = [&](Graph& graph) {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    describe_scores(options, a);
    options.set_deterministic_algorithm(deterministic());
    const auto [gq, gk, gv] = graph.sdpa_backward(
        graph.tensor(describe(a.q, uid_q)), graph.tensor(describe(a.k, uid_k)),
        graph.tensor(describe(a.v, uid_v)), graph.tensor(describe(a.out, uid_out)),
        graph.tensor(describe(a.dout, uid_dout)), graph.tensor(describe(a.lse, uid_lse)), options);
    describe_output(gq, a.dq, uid_dq);
    describe_output(gk, a.dk, uid_dk);
    describe_output(gv, a.dv, uid_dv);
    return finish(graph);
  };
  const Key key =
      key_of({&a.dout, &a.q, &a.k, &a.v, &a.out, &a.lse, &a.dq, &a.dk, &a.dv}, a.scale, a.causal);
  return attention_plans().backward.run(key, a.q.dtype, build,
                                        {{uid_dout, a.dout.data},
                                         {uid_q, a.q.data},
                                         {uid_k, a.k.data},
                                         {uid_v, a.v.data},
                                         {uid_out, a.out.data},
                                         {uid_lse, a.lse.data},
                                         {uid_dq, a.dq.data},
                                         {uid_dk, a.dk.data},
                                         {uid_dv, a.dv.data}});
}

}  // namespace

bool attention_forward(const AttentionForward& a) {
  if (!supports(a.q, a.k, a.causal, {&a.q, &a.k, &a.v, &a.out})) return false;
  const TensorView statistics = as_statistics(a.lse);
  const auto build = [&](Graph& graph) {
    auto options = fe::graph::SDPA_attributes().set_name("attention_forward");
    describe_scores(options, a);
    options.set_generate_stats(true);
    const auto [y, stats] =
        graph.sdpa(graph.tensor(describe(a.q, uid_q)), graph.tensor(describe(a.k, uid_k)),
                   graph.tensor(describe(a.v, uid_v)), options);
    describe_output(y, a.out, uid_out);
    describe_output(stats, statistics, uid_lse);
    return finish(graph);
  };
  return attention_plans().forward.run(
      key_of({&a.q, &a.k, &a.v, &a.out, &statistics}, a.scale, a.causal), a.q.dtype, build,
      {{uid_q, a.q.data},
       {uid_k, a.k.data},
       {uid_v, a.v.data},
       {uid_out, a.out.data},
       {uid_lse, a.lse.data}});
}

bool attention_backward(const AttentionBackward& a) {
  if (!supports(a.q, a.k, a.causal, {&a.dout, &a.q, &a.k, &a.v, &a.out, &a.dq, &a.dk, &a.dv}))
    return false;
  const int64_t step = images_at_once(a.q, a.k);
  for (int64_t first = 0; first < a.q.shape[0]; first += step) {
    const auto part = [&](const TensorView& x) { return slice(x, first, step); };
    // All slices have the same plan: if cuDNN runs the first, it runs the others.
    if (!backward_slice({.dout = part(a.dout),
                         .q = part(a.q),
                         .k = part(a.k),
                         .v = part(a.v),
                         .out = part(a.out),
                         .lse = part(as_statistics(a.lse)),
                         .scale = a.scale,
                         .causal = a.causal,
                         .dq = part(a.dq),
                         .dk = part(a.dk),
                         .dv = part(a.dv)}))
      return false;
  }
  return true;
}

}  // namespace binade::backend::cuda::cudnn

#endif  // BINADE_CUDNN
