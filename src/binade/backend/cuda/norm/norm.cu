#include "binade/backend/norm.h"

#include <algorithm>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/norm/backward.h"
#include "binade/backend/cuda/norm/batch.h"
#include "binade/backend/cuda/norm/math.cuh"
#include "binade/backend/cuda/norm/row_batch.h"
#include "binade/backend/cuda/quantize/tile.cuh"

namespace binade::backend::cuda {
namespace {

constexpr int max_team = 512;

template <class C>
struct Forward {
  bool centered;  // layer norm
  Operand x, residual, weight, bias, sum, y, mean, rstd;
  int64_t rows, width;
  C eps;
  Operand quantized;  // y rounded to `rounded` and quantized
  DType rounded;
  const float* factor;  // that it is multiplied by
  float* amax;          // or null
};

// Quantizes some values of y and raises `largest` to their magnitudes.
template <int N>
__device__ void quantize_pack(const Forward<float>& a, float factor, int64_t at, float (&y)[N],
                              uint32_t& largest) {
  round_to(a.rounded, y);
#pragma unroll
  for (int i = 0; i < N; ++i) largest = max(largest, magnitude_bits(y[i]));
  uint8_t* to = static_cast<uint8_t*>(a.quantized.data) + at;
  if (a.quantized.dtype == DType::e4m3) {
    store_encoded<e4m3>(y, factor, to);
  } else {
    store_encoded<e5m2>(y, factor, to);
  }
}

// A row in registers: thread t of a team of threads holds packs t, t + team, t + 2 team, ...
template <class C, int N, int K>
struct Row {
  C values[K][N];

  // Calls f(column, values) for all packs of this thread.
  template <class F>
  __device__ void each(int64_t width, F f) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = column_of(k);
      if (column < width) f(column, values[k]);
    }
  }

  // Reads x, or x + residual rounded to the sum's type; stores the sum.
  __device__ void read(const Forward<C>& a, int64_t base) {
    Fetched<C, N> in[K], other[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= a.width) continue;
      in[k] = fetch<C, N>(a.x, base + column_of(k));
      if (a.residual) other[k] = fetch<C, N>(a.residual, base + column_of(k));
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= a.width) continue;
      widen(in[k], a.x.dtype, values[k]);
      if (!a.residual) continue;
      C residual[N];
      widen(other[k], a.residual.dtype, residual);
#pragma unroll
      for (int i = 0; i < N; ++i) values[k][i] += residual[i];
      round_to(a.sum.dtype, values[k]);
      store(a.sum, base + column_of(k), values[k]);
    }
  }

  __device__ static int64_t column_of(int k) {
    return static_cast<int64_t>(k * blockDim.x + threadIdx.x) * N;
  }
};

// A row too wide for registers: read again in each pass. A thread reads only what it wrote itself.
template <class C>
struct Row<C, 1, 0> {
  Operand source;
  int64_t base;

  template <class F>
  __device__ void each(int64_t width, F f) {
    for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
      C value[1];
      load(source, base + column, value);
      f(column, value);
    }
  }

  __device__ void read(const Forward<C>& a, int64_t at) {
    source = a.residual ? a.sum : a.x;
    base = at;
    if (!a.residual) return;
    for (int64_t column = threadIdx.x; column < a.width; column += blockDim.x) {
      store_one(a.sum, at + column,
                load_one<C>(a.x, at + column) + load_one<C>(a.residual, at + column));
    }
  }
};

// The sum over a row's threads: a warp, of which a block may hold several, or the whole block.
template <class C>
__device__ C team_sum(C value, C* scratch) {
  return blockDim.x == warp_size ? reduce_warp(value, Sum())
                                 : reduce_block(value, Sum(), C{0}, scratch);
}

template <class C, int N, int K>
__global__ void __launch_bounds__(max_team) forward_kernel(const __grid_constant__ Forward<C> a) {
  __shared__ C scratch[warp_size];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= a.rows) return;
  const int64_t base = row * a.width;
  Row<C, N, K> held;
  held.read(a, base);
  C center = 0;
  if (a.centered) {
    C sum = 0;
    held.each(a.width, [&](int64_t, const C(&v)[N]) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum += v[i];
    });
    center = team_sum(sum, scratch) / static_cast<C>(a.width);
    if (a.mean && threadIdx.x == 0) store_one(a.mean, row, center);
  }
  C squares = 0;
  held.each(a.width, [&](int64_t, const C(&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (v[i] - center) * (v[i] - center);
  });
  const C variance = team_sum(squares, scratch) / static_cast<C>(a.width);
  const C scale = C{1} / sqrt(variance + a.eps);
  if (a.rstd && threadIdx.x == 0) store_one(a.rstd, row, scale);
  if (!a.y && !a.quantized) return;
  const float factor = a.quantized ? *a.factor : 1;
  uint32_t largest = 0;
  held.each(a.width, [&](int64_t column, const C(&v)[N]) {
    C weight[N], bias[N], out[N];
    load_parameter(a.weight, column, C{1}, weight);
    load_parameter(a.bias, column, C{0}, bias);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = normed_value(v[i], center, scale, weight[i], bias[i]);
    if constexpr (std::is_same_v<C, float>) {
      if (a.quantized) return quantize_pack(a, factor, base + column, out, largest);
    }
    store(a.y, base + column, out);
  });
  if (!a.quantized || a.amax == nullptr) return;
  // Each warp for itself; most find a maximum that is large enough already.
  largest = reduce_warp(largest, Max());
  if (threadIdx.x % warp_size == 0 && largest > __ldcg(reinterpret_cast<unsigned*>(a.amax)))
    atomicMax(reinterpret_cast<unsigned*>(a.amax), largest);
}

template <class C, int N>
void start_forward(const Forward<C>& a) {
  constexpr int held = N == 1 ? 8 : 4;  // packs a thread can hold
  const int64_t packs = a.width / N;
  const int64_t team = warp_size * divide_up(packs, held * warp_size);
  if (team > max_team) {
    launch(forward_kernel<C, 1, 0>, static_cast<unsigned>(a.rows), max_team, 0, a);
    return;
  }
  const int per_block = team == warp_size ? 4 : 1;
  launch(forward_kernel<C, N, held>, static_cast<unsigned>(divide_up(a.rows, per_block)),
         dim3(static_cast<unsigned>(team), per_block), 0, a);
}

void forward(const NormForward& args) {
  require_compute("norm", {&args.x, &args.residual, &args.weight, &args.bias, &args.sum, &args.y,
                           &args.mean, &args.rstd});
  const int64_t width = args.x.shape.back();
  if (args.x.numel() == 0) return;
  const int pack =
      pack_size(width, {&args.x, &args.residual, &args.sum, &args.y}, {&args.weight, &args.bias});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    start_forward<C, P::size>({.centered = args.kind == NormKind::layer,
                               .x = args.x,
                               .residual = args.residual,
                               .weight = args.weight,
                               .bias = args.bias,
                               .sum = args.sum,
                               .y = args.y,
                               .mean = args.mean,
                               .rstd = args.rstd,
                               .rows = args.x.numel() / width,
                               .width = width,
                               .eps = static_cast<C>(args.eps),
                               .quantized = args.quantized.data,
                               .rounded = args.rounded,
                               .factor = args.quantized.scale.as<const float>(),
                               .amax = args.quantized.amax.as<float>()});
  });
}

}  // namespace

const NormKernels norm_kernels{.forward = forward,
                               .backward = norm_backward,
                               .batch_forward = batch_norm_forward,
                               .batch_backward = batch_norm_backward,
                               .group_forward = group_norm_forward,
                               .group_backward = group_norm_backward,
                               .row_batch_forward = row_batch_norm_forward,
                               .row_batch_sums = row_batch_norm_sums,
                               .row_batch_backward = row_batch_norm_backward};

}  // namespace binade::backend::cuda
