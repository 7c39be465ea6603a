#include "binade/backend/cuda/reduce/argmax_cumsum.h"

#include <type_traits>

#include "binade/backend/cpu/reduce/axes.h"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/reduce/scan.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;

// ---- the first largest or smallest element ----

template <class C>
struct Best {
  C value;
  int64_t index;  // -1 before the first
};

// Whether `a` is the better of the two: NaN beats every number, the earlier of equals wins.
template <class C>
__device__ inline bool is_better(bool largest, const Best<C>& a, const Best<C>& b) {
  if (a.index < 0 || b.index < 0) return b.index < 0;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.value != b.value) return (a.value > b.value) == largest;
  return a.index < b.index;
}

template <class C>
__device__ inline Best<C> best_of_warp(bool largest, Best<C> best) {
#pragma unroll
  for (int step = warp_size / 2; step > 0; step /= 2) {
    const Best<C> other{__shfl_xor_sync(0xffffffffu, best.value, step),
                        __shfl_xor_sync(0xffffffffu, best.index, step)};
    if (is_better(largest, other, best)) best = other;
  }
  return best;
}

struct ArgSearch {
  bool largest;
  AnyView x;            // the kept axes
  int64_t count, step;  // along the searched axis
  AnyView y;
  int64_t results;
  int group;  // threads per result: one, a warp or the block
};

template <class C>
__global__ void __launch_bounds__(threads) arg_kernel(const __grid_constant__ ArgSearch a) {
  __shared__ Best<C> shared[threads / warp_size];
  const int lane = threadIdx.x % a.group;
  const int64_t result = int64_t{blockIdx.x} * (blockDim.x / a.group) + threadIdx.x / a.group;
  if (result >= a.results) return;  // all threads of a group or none
  const int64_t base = offset_of(a.x.layout, result);
  Best<C> best{C{}, -1};
  for (int64_t i = lane; i < a.count; i += a.group) {
    const Best<C> next{load_as<C>(a.x.data, a.x.dtype, base + i * a.step), i};
    if (is_better(a.largest, next, best)) best = next;
  }
  if (a.group > 1) best = best_of_warp(a.largest, best);
  if (a.group > warp_size) {
    if (threadIdx.x % warp_size == 0) shared[threadIdx.x / warp_size] = best;
    __syncthreads();
    for (const Best<C>& other : shared) {
      if (is_better(a.largest, other, best)) best = other;
    }
  }
  if (lane == 0) a.y.store(result, best.index);
}

// ---- running sums ----

// Sums are double, as on the CPU: memory limits the speed anyway.
template <class T, class V>
struct RunningSum {
  using Value = V;
  Lines x, y;

  struct Ends {
    Line x, y;
    __device__ V load(int64_t i) const { return static_cast<V>(x.load<T>(i)); }
    __device__ void store(int64_t i, V, V now) const { y.store(i, now); }
  };

  static __device__ V identity() { return 0; }
  static __device__ V join(V a, V b) {
    // Integers wrap around.
    using U = std::conditional_t<std::is_integral_v<V>, uint64_t, V>;
    return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
  }
  __device__ Ends line(int64_t i) const { return {Line(x, i), Line(y, i)}; }
};

}  // namespace

void arg(bool largest, TensorView x, int axis, TensorView y) {
  if (y.numel() == 0) return;
  const cpu::ReductionAxes axes(x, y, axis);
  const int64_t results = axes.kept.numel(), count = x.shape[axis];
  const bool beside = axes.side_by_side() && results >= threads;
  const int group = beside ? 1 : count <= 4 * threads ? warp_size : threads;
  const ArgSearch search{.largest = largest,
                         .x = AnyView(axes.kept),
                         .count = count,
                         .step = x.strides[axis],
                         .y = AnyView(axes.kept_y),
                         .results = results,
                         .group = group};
  cpu::with_exact_type(x.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    launch(arg_kernel<C>, static_cast<unsigned>(divide_up(results, threads / group)), threads, 0,
           search);
  });
}

void cumsum(TensorView x, int axis, bool reverse, TensorView y) {
  if (y.numel() == 0) return;
  const int64_t count = x.shape[axis], lines = x.numel() / count;
  cpu::with_exact_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using V = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    run_scan(RunningSum<T, V>{Lines(x, axis, reverse), Lines(y, axis, reverse)}, lines, count,
             lines_beside(x, axis));
  });
}

}  // namespace binade::backend::cuda
