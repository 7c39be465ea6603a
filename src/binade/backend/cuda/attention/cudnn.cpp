#ifdef BINADE_CUDNN

#include "binade/backend/cuda/attention/cudnn.h"

#include <algorithm>
#include <initializer_list>

#include "binade/backend/cuda/cudnn_plan.h"
#include "binade/backend/cuda/device.h"

namespace binade::backend::cuda::cudnn {
namespace {

enum Uid : int64_t { uid_q = 1, uid_k, uid_v, uid_out, uid_lse, uid_dout, uid_dq, uid_dk, uid_dv };

// cuDNN moves 16 bytes at a time and does not check that it may.
bool aligned(const TensorView& x) {
  const int64_t elements = 16 / static_cast<int64_t>(size_of(x.dtype));
  bool fit = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.strides[3] == 1;
  for (int axis = 0; axis < 3; ++axis) fit = fit && x.strides[axis] % elements == 0;
  return fit;
}

bool served(const TensorView& q, const TensorView& k, bool causal,
            std::initializer_list<const TensorView*> tensors) {
  if (q.dtype != DType::f16 && q.dtype != DType::bf16) return false;
  const int64_t queries = q.shape[2], keys = k.shape[2], dim = q.shape[3];
  if (q.numel() == 0 || k.numel() == 0 || dim % 8 != 0 || dim > 128) return false;
  // Queries that see no key are not zero there.
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

// What forward and backward say alike.
template <class Options>
void describe_scores(Options& options, const TensorView& q, const TensorView& k, double scale,
                     bool causal) {
  options.set_attn_scale(static_cast<float>(scale));
  if (!causal) return;
  const bool square = q.shape[2] == k.shape[2];
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

// Images of a batch that a deterministic backward takes at once: cuDNN then keeps the gradients of
// all scores in its workspace, and this bounds it. A divisor of the batch, so that one plan serves.
int64_t images_at_once(const TensorView& q, const TensorView& k) {
  constexpr int64_t workspace_bytes = int64_t{512} << 20;
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

bool backward_slice(const TensorView& dout, const TensorView& q, const TensorView& k,
                    const TensorView& v, const TensorView& out, const TensorView& lse, double scale,
                    bool causal, const TensorView& dq, const TensorView& dk, const TensorView& dv) {
  thread_local Plans plans;
  const auto build = [&](Graph& graph) {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    describe_scores(options, q, k, scale, causal);
    options.set_deterministic_algorithm(deterministic());
    const auto [gq, gk, gv] = graph.sdpa_backward(
        graph.tensor(describe(q, uid_q)), graph.tensor(describe(k, uid_k)),
        graph.tensor(describe(v, uid_v)), graph.tensor(describe(out, uid_out)),
        graph.tensor(describe(dout, uid_dout)), graph.tensor(describe(lse, uid_lse)), options);
    describe_output(gq, dq, uid_dq);
    describe_output(gk, dk, uid_dk);
    describe_output(gv, dv, uid_dv);
    return finish(graph);
  };
  return plans.run(key_of({&dout, &q, &k, &v, &out, &lse, &dq, &dk, &dv}, scale, causal), q.dtype,
                   build,
                   {{uid_dout, dout.data},
                    {uid_q, q.data},
                    {uid_k, k.data},
                    {uid_v, v.data},
                    {uid_out, out.data},
                    {uid_lse, lse.data},
                    {uid_dq, dq.data},
                    {uid_dk, dk.data},
                    {uid_dv, dv.data}});
}

}  // namespace

bool attention_forward(const TensorView& q, const TensorView& k, const TensorView& v, double scale,
                       bool causal, const TensorView& out, const TensorView& lse) {
  if (!served(q, k, causal, {&q, &k, &v, &out})) return false;
  const TensorView statistics = as_statistics(lse);
  const auto build = [&](Graph& graph) {
    auto options = fe::graph::SDPA_attributes().set_name("attention_forward");
    describe_scores(options, q, k, scale, causal);
    options.set_generate_stats(true);
    const auto [y, stats] =
        graph.sdpa(graph.tensor(describe(q, uid_q)), graph.tensor(describe(k, uid_k)),
                   graph.tensor(describe(v, uid_v)), options);
    describe_output(y, out, uid_out);
    describe_output(stats, statistics, uid_lse);
    return finish(graph);
  };
  thread_local Plans plans;
  return plans.run(key_of({&q, &k, &v, &out, &statistics}, scale, causal), q.dtype, build,
                   {{uid_q, q.data},
                    {uid_k, k.data},
                    {uid_v, v.data},
                    {uid_out, out.data},
                    {uid_lse, lse.data}});
}

bool attention_backward(const TensorView& dout, const TensorView& q, const TensorView& k,
                        const TensorView& v, const TensorView& out, const TensorView& lse,
                        double scale, bool causal, const TensorView& dq, const TensorView& dk,
                        const TensorView& dv) {
  if (!served(q, k, causal, {&dout, &q, &k, &v, &out, &dq, &dk, &dv})) return false;
  const int64_t step = images_at_once(q, k);
  for (int64_t first = 0; first < q.shape[0]; first += step) {
    const auto part = [&](const TensorView& x) { return slice(x, first, step); };
    // What serves the first slice serves them all: their plan is the same.
    if (!backward_slice(part(dout), part(q), part(k), part(v), part(out), part(as_statistics(lse)),
                        scale, causal, part(dq), part(dk), part(dv)))
      return false;
  }
  return true;
}

}  // namespace binade::backend::cuda::cudnn

#endif  // BINADE_CUDNN
