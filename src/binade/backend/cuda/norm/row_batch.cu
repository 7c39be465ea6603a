#include "binade/backend/cuda/norm/row_batch.h"

#include "binade/backend/cuda/norm/row_batch.cuh"

namespace binade::backend::cuda {
namespace {

// ---- statistics ----

// Rows a thread loads before it uses the first.
constexpr int held_for_moments = 8;
// At 80 registers a thread.
constexpr int resident_moments = 3;
using MomentTiling = RowTiling<held_for_moments, resident_moments>;

// parts [splits, 2, channels]: mean and sum of squared deviations of a block's rows. Two passes per
// chunk in registers, merged by Chan's formula.
template <class C, int N>
__global__ void __launch_bounds__(row_threads, resident_moments)
    moments_kernel(Operand x, const __grid_constant__ MomentTiling t, C* parts) {
  __shared__ C means[row_threads * N], squares[row_threads * N];
  __shared__ C counts[row_threads];
  const int64_t channel = t.channel<N>();
  C mean[N] = {}, square[N] = {}, count = 0;
  if (channel < t.channels) {
    t.for_each_chunk([&](int64_t first, int rows) {
      Fetched<C, N> in[held_for_moments];
#pragma unroll
      for (int k = 0; k < held_for_moments; ++k)
        if (k < rows) in[k] = fetch<C, N>(x, (first + int64_t{k} * t.lines) * t.channels + channel);
      C center[N] = {};
#pragma unroll
      for (int k = 0; k < held_for_moments; ++k) {
        if (k >= rows) continue;
        C values[N];
        widen(in[k], x.dtype, values);
#pragma unroll
        for (int i = 0; i < N; ++i) center[i] += values[i];
      }
      const C added = static_cast<C>(rows), each = C{1} / added;
      const C ratio = added / (count + added);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        center[i] *= each;
        const C delta = center[i] - mean[i];
        mean[i] += delta * ratio;
        square[i] += delta * delta * (count * ratio);
      }
#pragma unroll
      for (int k = 0; k < held_for_moments; ++k) {
        if (k >= rows) continue;
        C values[N];
        widen(in[k], x.dtype, values);
#pragma unroll
        for (int i = 0; i < N; ++i) square[i] += (values[i] - center[i]) * (values[i] - center[i]);
      }
      count += added;
    });
  }
  const int width = t.packs * N, line = threadIdx.y;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    means[line * width + threadIdx.x * N + i] = mean[i];
    squares[line * width + threadIdx.x * N + i] = square[i];
  }
  if (threadIdx.x == 0) counts[line] = count;
  __syncthreads();
  const int all = t.packs * t.lines;
  for (int i = line * t.packs + threadIdx.x; i < width; i += all) {
    const int64_t at = int64_t{blockIdx.x} * width + i;
    if (at >= t.channels) continue;
    C total = 0, weighted = 0, sum = 0;
    for (int j = 0; j < t.lines; ++j) {
      total += counts[j];
      weighted += counts[j] * means[j * width + i];
    }
    const C merged = weighted / total;
    for (int j = 0; j < t.lines; ++j) {
      const C delta = means[j * width + i] - merged;
      sum += squares[j * width + i] + counts[j] * delta * delta;
    }
    C* to = parts + t.split() * 2 * t.channels + at;
    to[0] = merged;
    to[t.channels] = sum;
  }
}

struct FinishMoments {
  double eps;
  Operand mean, rstd, running_mean, running_variance;
  double momentum;
};

__device__ void move_towards(const Operand& running, int64_t channel, double value,
                             double momentum) {
  if (!running) return;
  const double old = load_one<double>(running, channel);
  store_one(running, channel, (1 - momentum) * old + momentum * value);
}

template <class C>
__global__ void finish_moments_kernel(const C* parts, const __grid_constant__ MomentTiling t,
                                      const __grid_constant__ FinishMoments a) {
  __shared__ double scratch[merge_lines][merged_channels];
  const int64_t channel = int64_t{blockIdx.x} * merged_channels + threadIdx.x;
  const bool active = channel < t.channels;
  const double rows = static_cast<double>(t.rows);
  double weighted = 0, squares = 0;
  for (int64_t s = threadIdx.y; active && s < t.splits; s += merge_lines)
    weighted += static_cast<double>(t.rows_of(s)) * parts[s * 2 * t.channels + channel];
  const double mean = sum_lines(weighted, scratch) / rows;
  for (int64_t s = threadIdx.y; active && s < t.splits; s += merge_lines) {
    const C* part = parts + s * 2 * t.channels + channel;
    const double delta = part[0] - mean;
    squares += part[t.channels] + static_cast<double>(t.rows_of(s)) * delta * delta;
  }
  squares = sum_lines(squares, scratch);
  if (!active || threadIdx.y != 0) return;
  const double variance = squares / rows;
  store_one(a.mean, channel, static_cast<C>(mean));
  store_one(a.rstd, channel, C{1} / sqrt(static_cast<C>(variance + a.eps)));
  move_towards(a.running_mean, channel, mean, a.momentum);
  move_towards(a.running_variance, channel, rows > 1 ? squares / (rows - 1) : variance, a.momentum);
}

// ---- y ----

struct Apply {
  Operand x, residual, weight, bias, mean, rstd, y;
  bool relu;
};

template <class C, int N>
__global__ void __launch_bounds__(row_threads, resident_blocks)
    row_apply_kernel(const __grid_constant__ Apply a, const __grid_constant__ ApplyTiling t) {
  const int64_t channel = t.channel<N>();
  if (channel >= t.channels) return;
  const RowAffine<C, N> affine(a.mean, a.rstd, a.weight, a.bias, channel);
  t.for_each_chunk([&](int64_t first, int rows) {
    Fetched<C, N> in[held_for_apply], added[held_for_apply];
    const auto at = [&](int k) { return (first + int64_t{k} * t.lines) * t.channels + channel; };
#pragma unroll
    for (int k = 0; k < held_for_apply; ++k) {
      if (k >= rows) continue;
      in[k] = fetch<C, N>(a.x, at(k));
      if (a.residual) added[k] = fetch<C, N>(a.residual, at(k));
    }
#pragma unroll
    for (int k = 0; k < held_for_apply; ++k) {
      if (k >= rows) continue;
      C values[N];
      widen(in[k], a.x.dtype, values);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] = affine(values[i], i);
      if (a.residual) {
        C other[N];
        widen(added[k], a.residual.dtype, other);
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] += other[i];
      }
      if (a.relu) {
        // NaN stays NaN.
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = values[i] <= C{0} ? C{0} : values[i];
      }
      store(a.y, at(k), values);
    }
  });
}

}  // namespace

void row_batch_norm_forward(const RowBatchNormForward& args) {
  require_compute("batch_norm", {&args.x, &args.residual, &args.weight, &args.bias, &args.y,
                                 &args.mean, &args.rstd});
  const int64_t rows = args.x.shape[0], channels = args.x.shape[1];
  if (rows * channels == 0) return;
  const int pack = pack_size(channels, {&args.x, &args.residual, &args.y});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    if (args.training) {
      const MomentTiling tiling(rows, channels, P::size);
      const Tensor parts = workspace({tiling.splits, 2, channels}, dtype_of<C>);
      C* moments = static_cast<C*>(parts.raw_data());
      launch(moments_kernel<C, P::size>, tiling.grid(), tiling.block(), 0, args.x, tiling, moments);
      launch_merge(finish_moments_kernel<C>, channels, moments, tiling,
                   FinishMoments{.eps = args.eps,
                                 .mean = args.mean,
                                 .rstd = args.rstd,
                                 .running_mean = args.running_mean,
                                 .running_variance = args.running_variance,
                                 .momentum = args.momentum});
    }
    const ApplyTiling tiling(rows, channels, P::size);
    launch(row_apply_kernel<C, P::size>, tiling.grid(), tiling.block(), 0,
           Apply{.x = args.x,
                 .residual = args.residual,
                 .weight = args.weight,
                 .bias = args.bias,
                 .mean = args.mean,
                 .rstd = args.rstd,
                 .y = args.y,
                 .relu = args.relu},
           tiling);
  });
}

}  // namespace binade::backend::cuda
