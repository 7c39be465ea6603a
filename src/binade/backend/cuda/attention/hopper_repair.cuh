#pragma once

#include "binade/backend/cuda/attention/common.cuh"
#include "binade/backend/cuda/attention/row_spans.cuh"
#include "binade/backend/cuda/common/launch.cuh"

// Matmuls of tiles multiply what a mask hides by 0, and 0 times NaN or infinity is NaN. Where that
// may have happened, these kernels compute rows of results again, from what they see alone. They
// are slow, and have nothing to do unless numbers are not finite.
namespace binade::backend::cuda::native {

// A row of a head, an element of each lane in every 32.
template <class T, int Dim>
struct WarpRow {
  float x[Dim / 32];

  __device__ WarpRow() : x{} {}
  __device__ WarpRow(const Heads<T>& heads, int h, int row) {
    const T* from = heads.at(0, h) + row * heads.row + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) x[i] = static_cast<float>(from[32 * i]);
  }
  __device__ void store(const Heads<T>& heads, int h, int row, float factor) const {
    T* to = heads.at(0, h) + row * heads.row + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) to[32 * i] = T(x[i] * factor);
  }
  __device__ void add(const WarpRow& other, float factor) {
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) x[i] = fmaf(other.x[i], factor, x[i]);
  }
  __device__ float dot(const WarpRow& other) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) sum = fmaf(x[i], other.x[i], sum);
#pragma unroll
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    return sum;
  }
  // More terms change nothing.
  __device__ bool is_nan() const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) all = all && isnan(x[i]);
    return __all_sync(~0u, all);
  }
};

// Calls f(head, row) for each row of suspect groups of 16, a warp each. All warps of the grid.
template <class F>
__device__ void for_each_suspect(const int* suspects, int heads, int groups, int rows, F&& f) {
  const int64_t count = int64_t{heads} * groups, step = item_step();
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t first = first_item() - lane; first < count; first += step) {
    unsigned found = __ballot_sync(~0u, first + lane < count && suspects[first + lane] != 0);
    for (; found != 0; found &= found - 1) {
      const int64_t group = first + __ffs(static_cast<int>(found)) - 1;
      const int head = static_cast<int>(group / groups),
                from = static_cast<int>(group % groups) * 16;
      for (int row = from; row < min(from + 16, rows); ++row) f(head, row);
    }
  }
}

// Rows of the output. Of a row whose log-sum-exp is not finite, NaN is the result.
template <class T, int Dim>
__global__ void __launch_bounds__(256)
    repair_forward_kernel(ForwardArguments<T> a, Sizes sizes, RowSpans spans, const int* suspects,
                          int groups) {
  for_each_suspect(suspects, sizes.heads, groups, spans.rows, [&](int h, int row) {
    const float lse = a.lse[int64_t{h} * spans.rows + row];
    if (!isfinite(lse)) return;
    const int kv = h / sizes.group();
    const WarpRow<T, Dim> q(a.q, h, row);
    WarpRow<T, Dim> out;
    const Span keys = spans.keys(row);
    for (int key = keys.first; key < keys.end && !out.is_nan(); ++key) {
      const float p = exponential(q.dot({a.k, kv, key}) * a.scale - lse);
      out.add({a.v, kv, key}, p);
    }
    out.store(a.out, h, row, 1);
  });
}

// The probability of a query and a key that it sees, and the gradient of their score.
struct PairGradient {
  float p, ds;
};

template <class T, int Dim>
struct QueryRow {
  WarpRow<T, Dim> q, dout;
  float lse, delta;

  __device__ QueryRow(const BackwardArguments<T>& a, const Heads<T>& out, int h, int row, int rows)
      : q(a.q, h, row),
        dout(a.dout, h, row),
        lse(a.lse[int64_t{h} * rows + row]),
        delta(dout.dot({out, h, row})) {}
  __device__ PairGradient pair(const WarpRow<T, Dim>& k, const WarpRow<T, Dim>& v,
                               float scale) const {
    const float p = exponential(q.dot(k) * scale - lse);
    return {p, p * (dout.dot(v) - delta)};
  }
};

// Rows of dq of the first heads, then rows of dk and dv.
template <class T, int Dim>
__global__ void __launch_bounds__(256)
    repair_backward_kernel(BackwardArguments<T> a, Heads<T> out, Sizes sizes, RowSpans spans,
                           const int* suspects, int groups) {
  using Row = WarpRow<T, Dim>;
  const int heads = sizes.heads + sizes.kv_heads, group = sizes.group();
  for_each_suspect(suspects, heads, groups, spans.rows, [&](int head, int row) {
    if (head < sizes.heads) {
      const QueryRow<T, Dim> query(a, out, head, row, spans.rows);
      Row dq;
      const Span keys = spans.keys(row);
      for (int key = keys.first; key < keys.end && !dq.is_nan(); ++key) {
        const Row k(a.k, head / group, key);
        dq.add(k, query.pair(k, {a.v, head / group, key}, a.scale).ds);
      }
      dq.store(a.dq, head, row, a.scale);
      return;
    }
    const int kv = head - sizes.heads;
    const Row k(a.k, kv, row), v(a.v, kv, row);
    Row dk, dv;
    const Span queries = spans.queries(row);
    for (int h = kv * group; h < (kv + 1) * group; ++h) {
      for (int at = queries.first; at < queries.end && !(dk.is_nan() && dv.is_nan()); ++at) {
        const QueryRow<T, Dim> query(a, out, h, at, spans.rows);
        const PairGradient pair = query.pair(k, v, a.scale);
        dv.add(query.dout, pair.p);
        dk.add(query.q, pair.ds);
      }
    }
    dk.store(a.dk, kv, row, a.scale);
    dv.store(a.dv, kv, row, 1);
  });
}

// `suspects`: [heads, groups of 16 rows]; a head has as many groups as tiles of 128 rows have.
template <class T, int Dim>
void repair_forward(const AttentionForward& call, const RowSpans& spans, const int* suspects) {
  const Sizes sizes(call.q, call.k, call.causal);
  const int groups = ceil_div(spans.rows, 128) * 8;
  launch(repair_forward_kernel<T, Dim>, grid_for(int64_t{sizes.heads} * groups, 256), 256, 0,
         ForwardArguments<T>(call), sizes, spans, suspects, groups);
}

// `suspects` as in repair_forward, with the heads of queries and then those of keys.
template <class T, int Dim>
void repair_backward(const AttentionBackward& call, const RowSpans& spans, const int* suspects) {
  const Sizes sizes(call.q, call.k, call.causal);
  const int groups = ceil_div(spans.rows, 128) * 8;
  launch(repair_backward_kernel<T, Dim>,
         grid_for(int64_t{sizes.heads + sizes.kv_heads} * groups, 256), 256, 0,
         BackwardArguments<T>(call, nullptr), Heads<T>(call.out), sizes, spans, suspects, groups);
}

}  // namespace binade::backend::cuda::native
