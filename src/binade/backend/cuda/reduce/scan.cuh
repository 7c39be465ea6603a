#pragma once

#include "binade/backend/cpu/rows/strided.h"
#include "binade/backend/cuda/common/element_access.cuh"
#include "binade/backend/cuda/common/launch.cuh"

// Running results along one axis of a tensor. The elements along it form a line. A scan is a struct
// with the type Value of its results, identity(), join(earlier, later) and line(i), which returns
// an object with load(position) and store(position, before, now).
namespace binade::backend::cuda {

// A view along one axis, from the front or the back.
struct Lines {
  AnyView starts;  // of all lines
  int64_t first, step;

  Lines(const TensorView& view, int axis, bool reverse)
      : starts(cpu::without_axis(view, axis)),
        first(reverse ? (view.shape[axis] - 1) * view.strides[axis] : 0),
        step(reverse ? -view.strides[axis] : view.strides[axis]) {}
};

// One line of such a view.
struct Line {
  void* data;
  DType dtype;
  int64_t start, step;

  __device__ Line(const Lines& lines, int64_t index)
      : data(lines.starts.data),
        dtype(lines.starts.dtype),
        start(offset_of(lines.starts.layout, index) + lines.first),
        step(lines.step) {}

  template <class C>
  __device__ C load(int64_t position) const {
    return load_as<C>(data, dtype, start + position * step);
  }
  template <class C>
  __device__ void store(int64_t position, C value) const {
    store_as(data, dtype, start + position * step, value);
  }
};

inline constexpr int scan_threads = 256;

// Shuffles a value of any size, word by word.
template <class V>
__device__ inline V shuffle_up(const V& value, int lanes) {
  static_assert(sizeof(V) % sizeof(uint32_t) == 0);
  constexpr int words = static_cast<int>(sizeof(V) / sizeof(uint32_t));
  uint32_t bits[words];
  memcpy(bits, &value, sizeof(V));
#pragma unroll
  for (int i = 0; i < words; ++i) bits[i] = __shfl_up_sync(0xffffffffu, bits[i], lanes);
  V result;
  memcpy(&result, bits, sizeof(V));
  return result;
}

// `before` joins the values of all earlier threads of the block, `total` those of all threads.
template <class S>
struct BlockScan {
  using V = typename S::Value;
  V before, total;

  __device__ BlockScan(V value, V* totals) {
    const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    V running = value;
    for (int step = 1; step < warp_size; step *= 2) {
      const V earlier = shuffle_up(running, step);
      if (lane >= step) running = S::join(earlier, running);
    }
    if (lane == warp_size - 1) totals[warp] = running;
    const V left = shuffle_up(running, 1);
    __syncthreads();
    before = total = S::identity();
    for (int i = 0; i < scan_threads / warp_size; ++i) {
      if (i == warp) before = total;
      total = S::join(total, totals[i]);
    }
    if (lane > 0) before = S::join(before, left);
    __syncthreads();  // totals may be written again
  }
};

// A block for each line.
template <class S>
__global__ void __launch_bounds__(scan_threads)
    scan_block_kernel(const __grid_constant__ S scan, int64_t lines, int64_t count) {
  using V = typename S::Value;
  constexpr int items = 4;
  __shared__ V totals[scan_threads / warp_size];
  for (int64_t i = blockIdx.x; i < lines; i += gridDim.x) {
    const auto line = scan.line(i);
    V carried = S::identity();
    for (int64_t start = 0; start < count; start += scan_threads * items) {
      const int64_t first = start + threadIdx.x * items;
      V running[items + 1];
      running[0] = S::identity();
#pragma unroll
      for (int k = 0; k < items; ++k) {
        running[k + 1] = first + k < count ? S::join(running[k], line.load(first + k)) : running[k];
      }
      const BlockScan<S> block(running[items], totals);
      const V before = S::join(carried, block.before);
#pragma unroll
      for (int k = 0; k < items; ++k) {
        if (first + k >= count) break;
        line.store(first + k, S::join(before, running[k]), S::join(before, running[k + 1]));
      }
      carried = S::join(carried, block.total);
    }
  }
}

// A thread for each line.
template <class S>
__global__ void __launch_bounds__(scan_threads)
    scan_thread_kernel(const __grid_constant__ S scan, int64_t lines, int64_t count) {
  using V = typename S::Value;
  for (int64_t i = first_item(); i < lines; i += item_step()) {
    const auto line = scan.line(i);
    V before = S::identity();
    for (int64_t position = 0; position < count; ++position) {
      const V now = S::join(before, line.load(position));
      line.store(position, before, now);
      before = now;
    }
  }
}

// `beside`: neighbors in memory belong to different lines.
template <class S>
void run_scan(const S& scan, int64_t lines, int64_t count, bool beside) {
  constexpr int64_t few = 16, many = 4096;
  if (count <= few || (beside && lines >= many)) {
    launch(scan_thread_kernel<S>, grid_for(lines, scan_threads), scan_threads, 0, scan, lines,
           count);
  } else {
    launch(scan_block_kernel<S>, grid_for(lines, 1), scan_threads, 0, scan, lines, count);
  }
}

// Whether neighbors in memory belong to different lines along an axis.
inline bool lines_beside(const TensorView& x, int axis) {
  return x.strides[axis] != 1 && x.strides[axis] != -1;
}

}  // namespace binade::backend::cuda
