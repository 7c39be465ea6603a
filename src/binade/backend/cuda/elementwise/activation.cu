#include "binade/backend/activation.h"

#include <algorithm>
#include <numbers>
#include <type_traits>

#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/elementwise/activation_math.cuh"
#include "binade/backend/cuda/kernels.h"

namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;

// Runs f(first element) for every pack of `total` elements, a multiple of the pack's size.
template <class F>
__global__ void __launch_bounds__(threads)
    for_each_pack_kernel(const __grid_constant__ F f, int64_t total) {
  const int64_t at = first_item() * F::pack;
  if (at < total) f(at);
}

template <class F>
void for_each_pack(const F& f, int64_t total) {
  const int64_t packs = total / F::pack;
  launch(for_each_pack_kernel<F>, static_cast<unsigned>(divide_up(packs, threads)), threads, 0, f,
         total);
}

// ---- swiglu: a row of x is gate, then up ----

template <class C, int N>
struct SwiGlu {
  static constexpr int pack = N;
  Operand x, y;
  int64_t width;

  __device__ void operator()(int64_t at) const {
    const int64_t gate_at = at + quotient(at, width) * width;
    const Fetched<C, N> fetched_gate = fetch<C, N>(x, gate_at),
                        fetched_up = fetch<C, N>(x, gate_at + width);
    C gate[N], up[N];
    widen(fetched_gate, x.dtype, gate);
    widen(fetched_up, x.dtype, up);
    swiglu_values(x.dtype, gate, up);
    store(y, at, up);
  }
};

template <class C, int N>
struct SwiGluBackwardPack {
  static constexpr int pack = N;
  Operand dy, x, dx, y;
  int64_t width;

  __device__ void operator()(int64_t at) const {
    const int64_t gate_at = at + quotient(at, width) * width;
    const Fetched<C, N> fetched_dy = fetch<C, N>(dy, at), fetched_gate = fetch<C, N>(x, gate_at),
                        fetched_up = fetch<C, N>(x, gate_at + width);
    C d[N], gate[N], up[N];
    widen(fetched_dy, dy.dtype, d);
    widen(fetched_gate, x.dtype, gate);
    widen(fetched_up, x.dtype, up);
    swiglu_gradients(x.dtype, d, gate, up);
    store(dx, gate_at, gate);
    store(dx, gate_at + width, up);
    if (y) store(y, at, d);
  }
};

void swiglu(TensorView x, TensorView y) {
  require_compute("swiglu", {&x, &y});
  const int64_t width = y.shape.back();
  with_packing(x.dtype, pack_size(width, {&x, &y}), [&](auto packing) {
    using P = decltype(packing);
    for_each_pack(SwiGlu<typename P::type, P::size>{x, y, width}, y.numel());
  });
}

void swiglu_backward(const SwiGluBackward& args) {
  require_compute("swiglu_backward", {&args.dy, &args.x, &args.dx, &args.y});
  const int64_t width = args.dy.shape.back();
  const int pack = pack_size(width, {&args.dy, &args.x, &args.dx, &args.y});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    for_each_pack(
        SwiGluBackwardPack<typename P::type, P::size>{args.dy, args.x, args.dx, args.y, width},
        args.dy.numel());
  });
}

// ---- the backward of a fused activation ----

template <class C, int N>
struct BackwardPack {
  static constexpr int pack = N;
  Activation activation;
  Operand dy, x, dx, y;

  // dx of one pack, before it is rounded.
  __device__ void finish(int64_t at, const Fetched<C, N>& fetched_dy,
                         const Fetched<C, N>& fetched_x, C (&d)[N]) const {
    C v[N];
    widen(fetched_dy, dy.dtype, d);
    widen(fetched_x, x.dtype, v);
    if (y) {
      derivative_and_value(activation, x.dtype, d, v);
      store(y, at, v);
    } else {
      multiply_by_derivative(activation, x.dtype, d, v);
    }
    store(dx, at, d);
  }

  __device__ void operator()(int64_t at) const {
    const Fetched<C, N> fetched_dy = fetch<C, N>(dy, at), fetched_x = fetch<C, N>(x, at);
    C d[N];
    finish(at, fetched_dy, fetched_x, d);
  }
};

// The backward with sums of dx's columns. Along x a block's 32 threads hold a pack of columns each,
// along y its threads process rows. Blocks along y process rows a grid apart and write their sums
// to partials [blocks along y, width].
constexpr int row_threads = threads / warp_size;
constexpr int rows_in_flight = 2;

// Packs of rows `step` apart, those of them that exist.
template <class C, int N>
struct RowPacks {
  Fetched<C, N> dy[rows_in_flight], x[rows_in_flight];

  __device__ void fetch_rows(const BackwardPack<C, N>& f, int64_t row, int64_t step, int64_t rows,
                             int64_t width, int64_t column) {
#pragma unroll
    for (int k = 0; k < rows_in_flight; ++k) {
      if (row + k * step >= rows) continue;
      dy[k] = fetch<C, N>(f.dy, (row + k * step) * width + column);
      x[k] = fetch<C, N>(f.x, (row + k * step) * width + column);
    }
  }
};

// f with operands of type T, which the compiler then knows; f itself if T is void.
template <class T, class C, int N>
__device__ decltype(auto) typed(const BackwardPack<C, N>& f) {
  if constexpr (std::is_void_v<T>) {
    return (f);
  } else {
    const auto of_type = [](const Operand& x) { return Operand(x.data, dtype_of<T>); };
    return BackwardPack<C, N>{f.activation, of_type(f.dy), of_type(f.x), of_type(f.dx),
                              of_type(f.y)};
  }
}

// T: the type of all operands, or void if they differ. Of 16-bit operands, two blocks on a
// multiprocessor that keep everything in registers are faster than three or four.
template <class C, int N, class T>
__global__ void __launch_bounds__(threads, std::is_void_v<T> ? 3 : 2)
    activation_backward_rows(const __grid_constant__ BackwardPack<C, N> given, int64_t rows,
                             int64_t width, C* partials) {
  const auto& f = typed<T>(given);
  __shared__ C sums[row_threads][warp_size * N];
  const int64_t left = static_cast<int64_t>(blockIdx.x) * warp_size * N;
  const int64_t column = left + threadIdx.x * N;
  const int64_t step = static_cast<int64_t>(gridDim.y) * row_threads;
  C own[N] = {};
  int64_t row = static_cast<int64_t>(blockIdx.y) * row_threads + threadIdx.y;
  RowPacks<C, N> next;
  if (column < width) next.fetch_rows(f, row, step, rows, width, column);
  for (; row < rows && column < width; row += rows_in_flight * step) {
    // The next rows are loaded while these are processed.
    const RowPacks<C, N> current = next;
    next.fetch_rows(f, row + rows_in_flight * step, step, rows, width, column);
#pragma unroll
    for (int k = 0; k < rows_in_flight; ++k) {
      if (row + k * step >= rows) continue;
      C d[N];
      f.finish((row + k * step) * width + column, current.dy[k], current.x[k], d);
#pragma unroll
      for (int i = 0; i < N; ++i) own[i] += d[i];
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[threadIdx.y][threadIdx.x * N + i] = own[i];
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.y * warp_size + threadIdx.x);
       at < warp_size * N && left + at < width; at += threads) {
    C sum = 0;
    for (int y = 0; y < row_threads; ++y) sum += sums[y][at];
    partials[blockIdx.y * width + left + at] = sum;
  }
}

template <class T, class C, int N>
void start_rows(const BackwardPack<C, N>& f, int64_t rows, const Target& dbias) {
  const auto kernel = activation_backward_rows<C, N, T>;
  const int64_t width = dbias.view.numel();
  int resident = 1;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int64_t across = divide_up(width, warp_size * N);
  const int64_t filling = int64_t{properties().multiprocessors} * std::max(resident, 1) / across;
  const int64_t down =
      std::clamp<int64_t>(std::min(filling, divide_up(rows, row_threads)), 1, 65535);
  const Tensor partials = workspace({down, width}, dtype_of<C>);
  launch(kernel, dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)),
         dim3(warp_size, row_threads), 0, f, rows, width, static_cast<C*>(partials.raw_data()));
  Target sums = dbias;
  sums.view.shape = {1, width};
  sums.view.strides = {width, dbias.view.strides[0]};
  reduce_kernels.reduce(Reduction::sum, partials, sums);
}

void activation_backward(const ActivationBackward& args) {
  require_compute("activation_backward",
                  {&args.dy, &args.pre_activation, &args.dx, &args.dbias.view, &args.y});
  const int64_t total = args.dx.numel();
  const int64_t width = args.dbias.present() ? args.dbias.view.numel() : total;
  if (width == 0) return;
  const int pack = pack_size(width, {&args.dy, &args.pre_activation, &args.dx, &args.y});
  with_packing(args.pre_activation.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    const BackwardPack<typename P::type, P::size> f{args.activation, args.dy, args.pre_activation,
                                                    args.dx, args.y};
    if (!args.dbias.present()) return for_each_pack(f, total);
    if constexpr (P::size == 8) {
      const auto all_are = [&](DType dtype) {
        return args.dy.dtype == dtype && args.pre_activation.dtype == dtype &&
               args.dx.dtype == dtype && (!args.y.present || args.y.dtype == dtype);
      };
      if (all_are(DType::bf16)) return start_rows<bf16>(f, total / width, args.dbias);
      if (all_are(DType::f16)) return start_rows<f16>(f, total / width, args.dbias);
    }
    start_rows<void>(f, total / width, args.dbias);
  });
}

// ---- random numbers: each element's draw is a function of its index ----

template <class C, int N>
struct Dropout {
  static constexpr int pack = N;
  Operand x, y;
  float threshold;
  C scale;
  random::Key key;

  // Whether element at + i is kept; four share a block of draws.
  __device__ void draw(int64_t at, bool (&keep)[N]) const {
    if constexpr (N == 1) {
      keep[0] = random::uniform(key.seed, key.stream, static_cast<uint64_t>(at)) >= threshold;
    } else {
#pragma unroll
      for (int i = 0; i < N; i += 4) {
        const auto words = random::block(key.seed, key.stream, static_cast<uint64_t>(at + i) / 4);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          keep[i + k] = static_cast<float>(words[k] >> 8) * 0x1p-24f >= threshold;
      }
    }
  }

  __device__ void operator()(int64_t at) const {
    const Fetched<C, N> fetched = fetch<C, N>(x, at);
    bool keep[N];
    draw(at, keep);
    C values[N];
    widen(fetched, x.dtype, values);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = keep[i] ? values[i] * scale : C{0};
    store(y, at, values);
  }
};

void dropout(TensorView x, double p, random::Key key, TensorView y) {
  require_compute("dropout", {&x, &y});
  const int64_t total = x.numel();
  with_packing(x.dtype, pack_size(total, {&x, &y}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const C scale = p < 1 ? static_cast<C>(1 / (1 - p)) : C{0};
    for_each_pack(Dropout<C, P::size>{x, y, static_cast<float>(p), scale, key}, total);
  });
}

// value = start + step * draw, each operation rounded, as on the CPU.
template <class C, class Draw>
struct Fill {
  static constexpr int pack = 1;
  Operand y;
  double start, step;
  random::Key key;
  Draw draw;

  __device__ void operator()(int64_t at) const {
    const double value = static_cast<double>(draw(key, static_cast<uint64_t>(at)));
    store_one(y, at, static_cast<C>(__dadd_rn(start, __dmul_rn(step, value))));
  }
};

struct UniformDraw {
  __device__ float operator()(random::Key key, uint64_t index) const {
    return random::uniform(key.seed, key.stream, index);
  }
};

// random::normal, whose pair of draws shares one block.
struct NormalDraw {
  __device__ float operator()(random::Key key, uint64_t index) const {
    const auto words = random::block(key.seed, key.stream, index / 2);
    const bool upper = index % 2 != 0;
    const double u = ((upper ? words[2] : words[0]) + 0.5) * 0x1p-32;
    const double v = ((upper ? words[3] : words[1]) + 0.5) * 0x1p-32;
    return static_cast<float>(sqrt(-2.0 * log(u)) * cos(2.0 * std::numbers::pi * v));
  }
};

template <class Draw>
void fill(const char* op, double start, double step, random::Key key, const TensorView& y) {
  require_compute(op, {&y});
  if (y.dtype == DType::f64) {
    for_each_pack(Fill<double, Draw>{y, start, step, key, {}}, y.numel());
  } else {
    for_each_pack(Fill<float, Draw>{y, start, step, key, {}}, y.numel());
  }
}

void fill_normal(double mean, double deviation, random::Key key, TensorView y) {
  fill<NormalDraw>("fill_normal", mean, deviation, key, y);
}

void fill_uniform(double low, double high, random::Key key, TensorView y) {
  fill<UniformDraw>("fill_uniform", low, high - low, key, y);
}

}  // namespace

const ActivationKernels activation_kernels{.swiglu = swiglu,
                                           .swiglu_backward = swiglu_backward,
                                           .activation_backward = activation_backward,
                                           .dropout = dropout,
                                           .fill_normal = fill_normal,
                                           .fill_uniform = fill_uniform};

}  // namespace binade::backend::cuda
