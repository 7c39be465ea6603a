#include "binade/backend/cuda/norm/row_batch.cuh"
#include "binade/backend/cuda/norm/row_batch.h"

namespace binade::backend::cuda {
namespace {

constexpr int held_for_sums = 2;
using SumTiling = RowTiling<held_for_sums, resident_blocks>;

struct SumGradients {
  Operand dy, x, weight, bias, mean, rstd, y, masked, result;
  bool relu;
};

// parts [splits, 2, channels].
template <class C, int N>
__global__ void __launch_bounds__(row_threads, resident_blocks)
    row_sums_kernel(const __grid_constant__ SumGradients a, const __grid_constant__ SumTiling t,
                    C* parts) {
  __shared__ C shared[2][row_threads * N];
  const int64_t channel = t.channel<N>();
  C plain[N] = {}, centered[N] = {};
  if (channel < t.channels) {
    const RowAffine<C, N> affine(a.mean, a.rstd, a.weight, a.bias, channel);
    t.for_each_chunk([&](int64_t first, int rows) {
      Fetched<C, N> gradients[held_for_sums], inputs[held_for_sums], results[held_for_sums];
      const auto at = [&](int k) { return (first + int64_t{k} * t.lines) * t.channels + channel; };
#pragma unroll
      for (int k = 0; k < held_for_sums; ++k) {
        if (k >= rows) continue;
        gradients[k] = fetch<C, N>(a.dy, at(k));
        inputs[k] = fetch<C, N>(a.x, at(k));
        if (a.y) results[k] = fetch<C, N>(a.y, at(k));
      }
#pragma unroll
      for (int k = 0; k < held_for_sums; ++k) {
        if (k >= rows) continue;
        C g[N], v[N], y[N];
        widen(gradients[k], a.dy.dtype, g);
        widen(inputs[k], a.x.dtype, v);
        if (a.relu) {
          if (a.y) {
            widen(results[k], a.y.dtype, y);
          } else {
#pragma unroll
            for (int i = 0; i < N; ++i) y[i] = affine(v[i], i);
          }
#pragma unroll
          for (int i = 0; i < N; ++i) {
            g[i] = y[i] <= C{0} ? C{0} : g[i];
            y[i] = y[i] <= C{0} ? C{0} : y[i];
          }
          if (a.result) store(a.result, at(k), y);
          if (a.masked) store(a.masked, at(k), g);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
          plain[i] += g[i];
          centered[i] += g[i] * (v[i] - affine.center[i]);
        }
      }
    });
  }
  const int width = t.packs * N, line = threadIdx.y;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    shared[0][line * width + threadIdx.x * N + i] = plain[i];
    shared[1][line * width + threadIdx.x * N + i] = centered[i];
  }
  __syncthreads();
  const int all = t.packs * t.lines;
  for (int i = line * t.packs + threadIdx.x; i < 2 * width; i += all) {
    const int which = i / width, column = i % width;
    const int64_t at = int64_t{blockIdx.x} * width + column;
    if (at >= t.channels) continue;
    C sum = 0;
    for (int j = 0; j < t.lines; ++j) sum += shared[which][j * width + column];
    parts[(t.split() * 2 + which) * t.channels + at] = sum;
  }
}

template <class C>
__global__ void finish_sums_kernel(const C* parts, const __grid_constant__ SumTiling t, C* sums) {
  __shared__ double scratch[merge_lines][merged_channels];
  const int64_t channel = int64_t{blockIdx.x} * merged_channels + threadIdx.x;
  const bool active = channel < t.channels;
  double total[2] = {};
  for (int64_t s = threadIdx.y; active && s < t.splits; s += merge_lines) {
    total[0] += parts[s * 2 * t.channels + channel];
    total[1] += parts[(s * 2 + 1) * t.channels + channel];
  }
  for (int which = 0; which < 2; ++which) {
    const double sum = sum_lines(total[which], scratch);
    if (active && threadIdx.y == 0) sums[which * t.channels + channel] = static_cast<C>(sum);
  }
}

template <class C>
struct RowGradient {
  Operand dy, x, weight, bias, mean, rstd;
  const C* sums;
  bool relu, training;
  Operand dx;
  TargetOperand dweight, dbias;
};

// dx = g * rstd * weight + (x - mean) * slope + shift.
template <class C, int N>
__global__ void __launch_bounds__(row_threads, resident_blocks)
    row_gradient_kernel(const __grid_constant__ RowGradient<C> a,
                        const __grid_constant__ ApplyTiling t) {
  const int64_t channel = t.channel<N>();
  if (channel >= t.channels) return;
  const RowAffine<C, N> affine(a.mean, a.rstd, a.weight, a.bias, channel);
  C slope[N], shift[N];
  const C count = static_cast<C>(t.rows);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const C plain = a.sums[channel + i], centered = a.sums[t.channels + channel + i];
    const C rstd = load_one<C>(a.rstd, channel + i);
    slope[i] = a.training ? -affine.scale[i] * rstd * rstd * (centered / count) : C{0};
    shift[i] = a.training ? -affine.scale[i] * (plain / count) : C{0};
    if (t.split() > 0 || threadIdx.y > 0) continue;
    if (a.dweight) store_one(a.dweight, channel + i, centered * rstd);
    if (a.dbias) store_one(a.dbias, channel + i, plain);
  }
  if (!a.dx) return;
  t.for_each_chunk([&](int64_t first, int rows) {
    Fetched<C, N> gradients[held_for_apply], inputs[held_for_apply];
    const auto at = [&](int k) { return (first + int64_t{k} * t.lines) * t.channels + channel; };
#pragma unroll
    for (int k = 0; k < held_for_apply; ++k) {
      if (k >= rows) continue;
      gradients[k] = fetch<C, N>(a.dy, at(k));
      inputs[k] = fetch<C, N>(a.x, at(k));
    }
#pragma unroll
    for (int k = 0; k < held_for_apply; ++k) {
      if (k >= rows) continue;
      C g[N], v[N];
      widen(gradients[k], a.dy.dtype, g);
      widen(inputs[k], a.x.dtype, v);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (a.relu && affine(v[i], i) <= C{0}) g[i] = 0;
        v[i] = fma(g[i], affine.scale[i], fma(v[i] - affine.center[i], slope[i], shift[i]));
      }
      store(a.dx, at(k), v);
    }
  });
}

}  // namespace

void row_batch_norm_sums(const RowBatchNormSums& args) {
  require_compute("batch_norm_backward", {&args.dy, &args.x, &args.weight, &args.bias, &args.mean,
                                          &args.rstd, &args.y, &args.masked, &args.result});
  const int64_t rows = args.x.shape[0], channels = args.x.shape[1];
  if (rows * channels == 0) return;
  const int pack = pack_size(channels, {&args.dy, &args.x, &args.y, &args.masked, &args.result});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const SumTiling tiling(rows, channels, P::size);
    const Tensor parts = workspace({tiling.splits, 2, channels}, dtype_of<C>);
    C* sums = static_cast<C*>(parts.raw_data());
    launch(row_sums_kernel<C, P::size>, tiling.grid(), tiling.block(), 0,
           SumGradients{.dy = args.dy,
                        .x = args.x,
                        .weight = args.weight,
                        .bias = args.bias,
                        .mean = args.mean,
                        .rstd = args.rstd,
                        .y = args.y,
                        .masked = args.masked,
                        .result = args.result,
                        .relu = args.relu},
           tiling, sums);
    launch_merge(finish_sums_kernel<C>, channels, sums, tiling, args.sums.as<C>());
  });
}

void row_batch_norm_backward(const RowBatchNormBackward& args) {
  require_compute("batch_norm_backward",
                  {&args.dy, &args.x, &args.weight, &args.bias, &args.mean, &args.rstd, &args.dx,
                   &args.dweight.view, &args.dbias.view});
  const int64_t rows = args.x.shape[0], channels = args.x.shape[1];
  if (rows * channels == 0) return;
  const int pack = pack_size(channels, {&args.dy, &args.x, &args.dx});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const ApplyTiling tiling(rows, channels, P::size);
    launch(row_gradient_kernel<C, P::size>, tiling.grid(), tiling.block(), 0,
           RowGradient<C>{.dy = args.dy,
                          .x = args.x,
                          .weight = args.weight,
                          .bias = args.bias,
                          .mean = args.mean,
                          .rstd = args.rstd,
                          .sums = args.sums.as<C>(),
                          .relu = args.relu,
                          .training = args.training,
                          .dx = args.dx,
                          .dweight = args.dweight,
                          .dbias = args.dbias},
           tiling);
  });
}

}  // namespace binade::backend::cuda
