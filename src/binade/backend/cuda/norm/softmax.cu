#include "binade/backend/softmax.h"

#include <algorithm>
#include <cmath>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/kernels.h"

// A warp or a block per row. The first packs of a row stay in registers between the pass that
// computes its maximum and sum and the one that writes; only longer rows are read twice.
namespace binade::backend::cuda {
namespace {

constexpr int max_threads = 512;

// Packs of a row that each thread keeps.
constexpr int kept_packs = 4;

// The threads of a row: `size` of them, a warp or the whole block.
struct Group {
  int size;

  __device__ int lane() const { return threadIdx.x % size; }
  __device__ int64_t first_row() const {
    return int64_t{blockIdx.x} * (blockDim.x / size) + threadIdx.x / size;
  }
  __device__ int64_t row_step() const { return int64_t{gridDim.x} * (blockDim.x / size); }

  template <class C, class Op>
  __device__ C all(C value, Op op, C identity, C* shared) const {
    return size == warp_size ? reduce_warp(value, op) : reduce_block(value, op, identity, shared);
  }
};

// e^(x - max); 1 for the maximum itself, which may be infinite.
template <class C>
__device__ inline C shifted_exp(C x, C max) {
  return x == max ? C(1) : std::exp(x - max);
}

// The largest of the values so far and the sum of their shifted_exp.
template <class C>
struct Running {
  C max = -C(INFINITY);
  C sum = 0;

  template <int N>
  __device__ void add(const C (&values)[N]) {
    C next = max;
#pragma unroll
    for (int i = 0; i < N; ++i) next = Max()(next, values[i]);
    sum *= shifted_exp(max, next);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += shifted_exp(values[i], next);
    max = next;
  }

  __device__ void join(const Group& group, C* shared) {
    const C all = group.all(max, Max(), -C(INFINITY), shared);
    sum = group.all(sum * shifted_exp(max, all), Sum(), C(0), shared);
    max = all;
  }
};

template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    forward_kernel(SoftmaxKind kind, Operand x, Operand y, int64_t rows, int64_t width,
                   Group group) {
  const bool log = kind == SoftmaxKind::log;
  __shared__ C shared[warp_size];
  const int64_t step = int64_t{group.size} * N, first = int64_t{group.lane()} * N;
  for (int64_t row = group.first_row(); row < rows; row += group.row_step()) {
    const int64_t base = row * width, rest = first + kept_packs * step;
    Fetched<C, N> fetched[kept_packs];
    C kept[kept_packs][N];
    Running<C> running;
#pragma unroll
    for (int k = 0; k < kept_packs; ++k) {
      if (first + k * step < width) fetched[k] = fetch<C, N>(x, base + first + k * step);
    }
#pragma unroll
    for (int k = 0; k < kept_packs; ++k) {
      if (first + k * step >= width) break;
      widen(fetched[k], x.dtype, kept[k]);
      running.add(kept[k]);
    }
    for (int64_t at = rest; at < width; at += step) {
      C values[N];
      load(x, base + at, values);
      running.add(values);
    }
    running.join(group, shared);
    // With an infinite maximum all results are NaN.
    const C sum = std::isfinite(running.max) ? running.sum : C(NAN);
    const C scale = log ? std::log(sum) : 1 / sum;
    const auto write = [&](int64_t at, C(&values)[N]) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        // Subtracts the maximum first: adding the logarithm to a large one would round it.
        const C gap = values[i] - running.max;
        values[i] = log ? gap - scale : std::exp(gap) * scale;
      }
      store(y, base + at, values);
    };
#pragma unroll
    for (int k = 0; k < kept_packs; ++k) {
      if (first + k * step < width) write(first + k * step, kept[k]);
    }
    for (int64_t at = rest; at < width; at += step) {
      C values[N];
      load(x, base + at, values);
      write(at, values);
    }
  }
}

// The gradient and the output at one pack of a row.
template <class C, int N>
struct GradientPack {
  Fetched<C, N> fetched_g, fetched_y;
  C g[N], y[N];

  __device__ void read(const Operand& dy, const Operand& out, int64_t at) {
    fetched_g = fetch<C, N>(dy, at);
    fetched_y = fetch<C, N>(out, at);
  }
  __device__ void unpack(const Operand& dy, const Operand& out) {
    widen(fetched_g, dy.dtype, g);
    widen(fetched_y, out.dtype, y);
  }
  __device__ C term(bool log) const {
    C sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += log ? g[i] : g[i] * y[i];
    return sum;
  }
  __device__ void write(bool log, C total, const TargetOperand& dx, int64_t at) const {
    C result[N], old[N] = {};
    if (dx.accumulate) load(dx, at, old);
#pragma unroll
    for (int i = 0; i < N; ++i)
      result[i] = old[i] + (log ? g[i] - std::exp(y[i]) * total : y[i] * (g[i] - total));
    store(dx, at, result);
  }
};

struct Backward {
  SoftmaxKind kind;
  Operand dy, y;
  TargetOperand dx;
  int64_t rows, width;
  Group group;
};

template <class C, int N>
__global__ void __launch_bounds__(max_threads) backward_kernel(const __grid_constant__ Backward a) {
  const auto& [kind, dy, y, dx, rows, width, group] = a;
  const bool log = kind == SoftmaxKind::log;
  constexpr int packs = kept_packs / 2;  // of two tensors
  __shared__ C shared[warp_size];
  const int64_t step = int64_t{group.size} * N, first = int64_t{group.lane()} * N;
  for (int64_t row = group.first_row(); row < rows; row += group.row_step()) {
    const int64_t base = row * width, rest = first + packs * step;
    GradientPack<C, N> kept[packs];
    C total = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (first + k * step < width) kept[k].read(dy, y, base + first + k * step);
    }
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (first + k * step >= width) break;
      kept[k].unpack(dy, y);
      total += kept[k].term(log);
    }
    for (int64_t at = rest; at < width; at += step) {
      GradientPack<C, N> pack;
      pack.read(dy, y, base + at);
      pack.unpack(dy, y);
      total += pack.term(log);
    }
    total = group.all(total, Sum(), C(0), shared);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (first + k * step < width) kept[k].write(log, total, dx, base + first + k * step);
    }
    for (int64_t at = rest; at < width; at += step) {
      GradientPack<C, N> pack;
      pack.read(dy, y, base + at);
      pack.unpack(dy, y);
      pack.write(log, total, dx, base + at);
    }
  }
}

template <class C, int N>
__global__ void __launch_bounds__(max_threads)
    logsumexp_kernel(Operand x, Operand y, int64_t rows, int64_t width, Group group) {
  __shared__ C shared[warp_size];
  const int64_t step = int64_t{group.size} * N;
  for (int64_t row = group.first_row(); row < rows; row += group.row_step()) {
    Running<C> running;
    for (int64_t at = int64_t{group.lane()} * N; at < width; at += step) {
      C values[N];
      load(x, row * width + at, values);
      running.add(values);
    }
    running.join(group, shared);
    // An infinite maximum is the result.
    const bool finite = std::isfinite(running.max);
    if (group.lane() == 0)
      store_one(y, row, finite ? running.max + std::log(running.sum) : running.max);
  }
}

// How the rows of x are divided among threads that keep `packs` of n elements each.
struct Plan {
  int64_t rows, width;
  int threads;
  Group group;

  Plan(const TensorView& x, int n, int packs) : width(x.shape.back()) {
    rows = width == 0 ? 0 : x.numel() / width;
    const int64_t needed = divide_up(width, int64_t{n} * packs);
    threads = needed <= 256 ? 256 : max_threads;
    group.size = needed <= warp_size ? warp_size : threads;
  }
  unsigned grid() const { return grid_for(rows * group.size, threads); }
};

void forward(SoftmaxKind kind, TensorView x, TensorView y) {
  require_compute("softmax", {&x, &y});
  if (x.numel() == 0) return;
  with_packing(x.dtype, pack_size(x.shape.back(), {&x, &y}), [&](auto packing) {
    using P = decltype(packing);
    const Plan plan(x, P::size, kept_packs);
    launch(forward_kernel<typename P::type, P::size>, plan.grid(), plan.threads, 0, kind,
           Operand(x), Operand(y), plan.rows, plan.width, plan.group);
  });
}

void backward(SoftmaxKind kind, TensorView dy, TensorView y, Target dx) {
  require_compute("softmax_backward", {&dy, &y, &dx.view});
  if (y.numel() == 0) return;
  with_packing(y.dtype, pack_size(y.shape.back(), {&dy, &y, &dx.view}), [&](auto packing) {
    using P = decltype(packing);
    const Plan plan(y, P::size, kept_packs / 2);
    launch(backward_kernel<typename P::type, P::size>, plan.grid(), plan.threads, 0,
           Backward{.kind = kind,
                    .dy = dy,
                    .y = y,
                    .dx = dx,
                    .rows = plan.rows,
                    .width = plan.width,
                    .group = plan.group});
  });
}

void logsumexp(TensorView x, TensorView y) {
  require_compute("logsumexp", {&x, &y});
  if (x.numel() == 0) return;
  with_packing(x.dtype, pack_size(x.shape.back(), {&x}), [&](auto packing) {
    using P = decltype(packing);
    const Plan plan(x, P::size, kept_packs);
    launch(logsumexp_kernel<typename P::type, P::size>, plan.grid(), plan.threads, 0, Operand(x),
           Operand(y), plan.rows, plan.width, plan.group);
  });
}

}  // namespace

const SoftmaxKernels softmax_kernels{
    .forward = forward, .backward = backward, .logsumexp = logsumexp};

}  // namespace binade::backend::cuda
