#include "binade/backend/pool.h"

#include <cmath>

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/elementwise/elementwise.cuh"
#include "binade/backend/cuda/index/index_add.h"
#include "binade/backend/cuda/kernels.h"

// Tensors are [n, c, d, h, w]; each of the n * c planes of d * h * w elements is pooled by itself.
namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;

int64_t planes(const TensorView& x) { return x.shape[0] * x.shape[1]; }
int64_t plane_size(const TensorView& x) { return x.shape[2] * x.shape[3] * x.shape[4]; }

// Positions [begin, end).
struct Range {
  int64_t begin, end;
};

// Inputs and outputs of a plane along one axis, and the windows between them.
struct Axis {
  int64_t in, out, kernel, stride, padding;

  // The inputs of an output's window.
  __device__ Range inputs(int64_t output) const {
    const int64_t start = output * stride - padding;
    return {max(start, int64_t{0}), min(start + kernel, in)};
  }
  // The outputs whose windows hold an input.
  __device__ Range outputs(int64_t input) const {
    const int64_t below = input + padding - kernel + 1;
    const int64_t first = below > 0 ? ceil_div<int64_t>(below, stride) : 0;
    return {first, min((input + padding) / stride + 1, out)};
  }
  // The number of elements an output's window averages: those inside the input, or those up to the
  // end of its padding.
  __device__ int64_t length(int64_t output, bool with_padding) const {
    const int64_t start = output * stride - padding, end = start + kernel;
    if (with_padding) return min(end, in + padding) - start;
    return min(end, in) - max(start, int64_t{0});
  }
};

struct Windows {
  Axis d, h, w;

  Windows(const PoolGeometry& g, const TensorView& x, const TensorView& y)
      : d(axis(g, x, y, 0)), h(axis(g, x, y, 1)), w(axis(g, x, y, 2)) {}

  static Axis axis(const PoolGeometry& g, const TensorView& x, const TensorView& y, size_t i) {
    const int at = 2 + static_cast<int>(i);
    return {x.shape[at], y.shape[at], g.kernel[i], g.stride[i], g.padding[i]};
  }

  // The factor of an average; 0 if there is nothing to average.
  template <class C>
  __device__ C factor(int64_t i, int64_t j, int64_t k, bool with_padding) const {
    const int64_t a = d.length(i, with_padding), b = h.length(j, with_padding),
                  c = w.length(k, with_padding);
    return a > 0 && b > 0 && c > 0 ? C(1) / static_cast<C>(a * b * c) : C(0);
  }
};

// Calls visit(i, j, k) for all positions of a box, in order.
template <class F>
__device__ inline void for_box(Range d, Range h, Range w, F&& visit) {
  for (int64_t i = d.begin; i < d.end; ++i) {
    for (int64_t j = h.begin; j < h.end; ++j) {
      for (int64_t k = w.begin; k < w.end; ++k) visit(i, j, k);
    }
  }
}

// The plane of an element and its position in it.
struct Position {
  int64_t plane, d, h, w;

  __device__ Position(int64_t item, int64_t d_size, int64_t h_size, int64_t w_size) {
    w = item % w_size;
    h = item / w_size % h_size;
    const int64_t slice = item / w_size / h_size;
    d = slice % d_size;
    plane = slice / d_size;
  }
};

template <class C>
__global__ void __launch_bounds__(threads)
    max_forward_kernel(int64_t count, Operand x, const __grid_constant__ Windows windows, Operand y,
                       int64_t* index) {
  const Axis &d = windows.d, &h = windows.h, &w = windows.w;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const Position at(item, d.out, h.out, w.out);
    const int64_t base = at.plane * d.in * h.in * w.in;
    C best = -C(INFINITY);
    int64_t best_input = -1;  // stays -1 for a window entirely inside padding
    for_box(d.inputs(at.d), h.inputs(at.h), w.inputs(at.w), [&](int64_t i, int64_t j, int64_t k) {
      const int64_t input = (i * h.in + j) * w.in + k;
      const C value = load_one<C>(x, base + input);
      // A NaN wins over numbers and nothing over a NaN; -inf replaces "no index".
      if ((!(value <= best) && best == best) || best_input < 0) {
        best = value;
        best_input = input;
      }
    });
    store_one(y, item, best);
    index[item] = best_input;
  }
}

template <class C>
__global__ void __launch_bounds__(threads)
    average_forward_kernel(int64_t count, Operand x, const __grid_constant__ Windows windows,
                           bool with_padding, Operand y) {
  const Axis &d = windows.d, &h = windows.h, &w = windows.w;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const Position at(item, d.out, h.out, w.out);
    const int64_t base = at.plane * d.in * h.in * w.in;
    C sum = 0;
    for_box(d.inputs(at.d), h.inputs(at.h), w.inputs(at.w), [&](int64_t i, int64_t j, int64_t k) {
      sum += load_one<C>(x, base + (i * h.in + j) * w.in + k);
    });
    store_one(y, item, sum * windows.factor<C>(at.d, at.h, at.w, with_padding));
  }
}

// Each input sums the gradients of the outputs that averaged it.
template <class C>
__global__ void __launch_bounds__(threads)
    average_backward_kernel(int64_t count, Operand dy, const __grid_constant__ Windows windows,
                            bool with_padding, Operand dx) {
  const Axis &d = windows.d, &h = windows.h, &w = windows.w;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const Position at(item, d.in, h.in, w.in);
    const int64_t base = at.plane * d.out * h.out * w.out;
    C sum = 0;
    for_box(d.outputs(at.d), h.outputs(at.h), w.outputs(at.w),
            [&](int64_t i, int64_t j, int64_t k) {
              const C gradient = load_one<C>(dy, base + (i * h.out + j) * w.out + k);
              sum += gradient * windows.factor<C>(i, j, k, with_padding);
            });
    store_one(dx, item, sum);
  }
}

// ---- channels-last: a thread has a pack of channels at one position ----

// An element of [n, d, h, w, channels / N].
template <int N>
struct PackPosition {
  int64_t image, d, h, w, channel;

  __device__ PackPosition(int64_t item, int64_t d_size, int64_t h_size, int64_t w_size,
                          int64_t channels) {
    const int64_t packs = channels / N, position = quotient(item, packs);
    channel = (item - position * packs) * N;
    const int64_t row = quotient(position, w_size), slice = quotient(row, h_size);
    w = position - row * w_size;
    h = row - slice * h_size;
    image = quotient(slice, d_size);
    d = slice - image * d_size;
  }
};

template <int N>
struct alignas(N) Choices {
  uint8_t at[N];
};

// Marks a window that lies in padding.
constexpr uint8_t no_choice = 255;

template <class C, int N>
__global__ void __launch_bounds__(threads)
    last_max_forward_kernel(int64_t count, int64_t channels, Operand x,
                            const __grid_constant__ Windows windows, Operand y, uint8_t* choice) {
  const Axis &d = windows.d, &h = windows.h, &w = windows.w;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const PackPosition<N> at(item, d.out, h.out, w.out, channels);
    C best[N];
    Choices<N> chosen;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      best[i] = -C(INFINITY);
      chosen.at[i] = no_choice;
    }
    for_box(d.inputs(at.d), h.inputs(at.h), w.inputs(at.w), [&](int64_t i, int64_t j, int64_t k) {
      const int64_t input = ((at.image * d.in + i) * h.in + j) * w.in + k;
      const int64_t tap =
          ((i - at.d * d.stride + d.padding) * h.kernel + (j - at.h * h.stride + h.padding)) *
              w.kernel +
          (k - at.w * w.stride + w.padding);
      C values[N];
      load(x, input * channels + at.channel, values);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        // A NaN wins over numbers and nothing over a NaN; -inf replaces "no choice".
        if ((!(values[e] <= best[e]) && best[e] == best[e]) || chosen.at[e] == no_choice) {
          best[e] = values[e];
          chosen.at[e] = static_cast<uint8_t>(tap);
        }
      }
    });
    store(y, item * N, best);
    reinterpret_cast<Choices<N>*>(choice)[item] = chosen;
  }
}

// Each input sums the gradients of the outputs that chose it.
template <class C, int N>
__global__ void __launch_bounds__(threads)
    last_max_backward_kernel(int64_t count, int64_t channels, Operand dy, const uint8_t* choice,
                             const __grid_constant__ Windows windows, Operand dx) {
  const Axis &d = windows.d, &h = windows.h, &w = windows.w;
  for (int64_t item = first_item(); item < count; item += item_step()) {
    const PackPosition<N> at(item, d.in, h.in, w.in, channels);
    C sum[N] = {};
    for_box(
        d.outputs(at.d), h.outputs(at.h), w.outputs(at.w), [&](int64_t i, int64_t j, int64_t k) {
          const int64_t output = ((at.image * d.out + i) * h.out + j) * w.out + k;
          const int64_t tap =
              ((at.d - i * d.stride + d.padding) * h.kernel + (at.h - j * h.stride + h.padding)) *
                  w.kernel +
              (at.w - k * w.stride + w.padding);
          const int64_t from = output * channels + at.channel;
          const auto chosen = *reinterpret_cast<const Choices<N>*>(choice + from);
          C values[N];
          load(dy, from, values);
#pragma unroll
          for (int e = 0; e < N; ++e) sum[e] += chosen.at[e] == tap ? values[e] : C{0};
        });
    store(dx, item * N, sum);
  }
}

void channels_last_max_forward(TensorView x, const PoolGeometry& geometry, TensorView y,
                               TensorView choice) {
  require_compute("max_pool", {&x, &y});
  const int64_t channels = x.shape[1];
  with_packing(x.dtype, pack_size(channels, {&x, &y}), [&](auto packing) {
    using P = decltype(packing);
    const int64_t count = y.numel() / P::size;
    launch(last_max_forward_kernel<typename P::type, P::size>, grid_for(count, threads), threads, 0,
           count, channels, Operand(x), Windows(geometry, x, y), Operand(y), choice.as<uint8_t>());
  });
}

void channels_last_max_backward(TensorView dy, TensorView choice, const PoolGeometry& geometry,
                                TensorView dx) {
  require_compute("max_pool", {&dy, &dx});
  const int64_t channels = dx.shape[1];
  with_packing(dy.dtype, pack_size(channels, {&dy, &dx}), [&](auto packing) {
    using P = decltype(packing);
    const int64_t count = dx.numel() / P::size;
    launch(last_max_backward_kernel<typename P::type, P::size>, grid_for(count, threads), threads,
           0, count, channels, Operand(dy), choice.as<uint8_t>(), Windows(geometry, dx, dy),
           Operand(dx));
  });
}

// ---- the table ----

void max_forward(TensorView x, const PoolGeometry& geometry, TensorView y, TensorView index) {
  require_compute("max_pool", {&x, &y});
  const int64_t count = y.numel();
  with_floating_type(x.dtype == DType::f64, [&](auto tag) {
    using C = typename decltype(tag)::type;
    launch(max_forward_kernel<C>, grid_for(count, threads), threads, 0, count, Operand(x),
           Windows(geometry, x, y), Operand(y), index.as<int64_t>());
  });
}

TensorView as_planes(TensorView view) {
  view.shape = {planes(view), plane_size(view)};
  view.strides = dense_strides(view.shape);
  return view;
}

void max_backward(TensorView dy, TensorView index, TensorView dx) {
  require_compute("max_pool", {&dy, &dx});
  fill(dx, 0);
  add_at(as_planes(dy), 1, as_planes(index), as_planes(dx), NegativeIndex::skip);
}

void average_forward(TensorView x, const PoolGeometry& geometry, TensorView y) {
  require_compute("average_pool", {&x, &y});
  const int64_t count = y.numel();
  with_floating_type(x.dtype == DType::f64, [&](auto tag) {
    using C = typename decltype(tag)::type;
    launch(average_forward_kernel<C>, grid_for(count, threads), threads, 0, count, Operand(x),
           Windows(geometry, x, y), geometry.count_padding, Operand(y));
  });
}

void average_backward(TensorView dy, const PoolGeometry& geometry, TensorView dx) {
  require_compute("average_pool", {&dy, &dx});
  const int64_t count = dx.numel();
  with_floating_type(dy.dtype == DType::f64, [&](auto tag) {
    using C = typename decltype(tag)::type;
    launch(average_backward_kernel<C>, grid_for(count, threads), threads, 0, count, Operand(dy),
           Windows(geometry, dx, dy), geometry.count_padding, Operand(dx));
  });
}

}  // namespace

const PoolKernels pool_kernels{.max_forward = max_forward,
                               .max_backward = max_backward,
                               .average_forward = average_forward,
                               .average_backward = average_backward,
                               .channels_last_max_forward = channels_last_max_forward,
                               .channels_last_max_backward = channels_last_max_backward};

}  // namespace binade::backend::cuda
