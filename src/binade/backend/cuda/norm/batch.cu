#include "binade/backend/cuda/norm/batch.h"

#include <algorithm>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"

// Batch and group norm differ only in the elements that are normalized together. x is a list of
// rows of `inner` elements, one per sample and channel. Batch norm has one mean per channel, group
// norm one per run of rows.
namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;

// Elements that are summed together: `rows` rows of `inner` elements, `row_stride` apart.
struct Segments {
  int64_t count, rows, inner, stride, row_stride;

  BINADE_HD int64_t size() const { return rows * inner; }
  // Offset of element j of a segment.
  __device__ int64_t at(int64_t segment, int64_t j) const {
    const int64_t row = rows == 1 ? 0 : quotient(j, inner);
    return segment * stride + row * row_stride + (j - row * inner);
  }
};

// Maps a row of x to its channel's weight and to its mean.
struct RowMap {
  int64_t channels;
  int64_t group_rows;  // rows per mean; 0: one mean per channel

  __device__ int64_t channel(int64_t row) const { return row - quotient(row, channels) * channels; }
  __device__ int64_t statistic(int64_t row) const {
    return group_rows > 0 ? quotient(row, group_rows) : channel(row);
  }
};

struct Problem {
  int64_t rows, inner;
  RowMap map;
  Segments together;  // elements that share a mean
  Segments gradient;  // elements that the backward sums: channels, or the rows of groups
};

Problem batch_problem(const TensorView& x) {
  const int64_t n = x.shape[0], channels = x.shape[1], inner = x.shape[2];
  const Segments channel{channels, n, inner, inner, channels * inner};
  return {n * channels, inner, {channels, 0}, channel, channel};
}

Problem group_problem(const TensorView& x) {
  const int64_t n = x.shape[0], groups = x.shape[1], channels = x.shape[2], inner = x.shape[3];
  const int64_t size = channels * inner, rows = n * groups * channels;
  return {rows,
          inner,
          {groups * channels, channels},
          {n * groups, 1, size, size, 0},
          {rows, 1, inner, inner, 0}};
}

// Packs a thread holds at a time.
template <int N>
inline constexpr int held = N == 8 ? 2 : 4;
template <int N>
inline constexpr int64_t chunk_size = int64_t{threads} * held<N>* N;

// Blocks per segment: enough to fill the GPU, each with at least one chunk.
int64_t splits_for(const Segments& segments, int64_t chunk) {
  constexpr int64_t max_splits = 64;
  const int64_t filling =
      divide_up(4 * int64_t{properties().multiprocessors}, std::max<int64_t>(segments.count, 1));
  return std::clamp<int64_t>(divide_up(segments.size(), chunk), 1, std::min(filling, max_splits));
}

// ---- mean and variance: two passes per chunk in registers, merged by Chan's formula in f64 ----

struct Moments {
  double mean = 0, squares = 0, count = 0;

  __device__ void join(const Moments& other) {
    if (other.count == 0) return;
    const double total = count + other.count, delta = other.mean - mean;
    mean += delta * (other.count / total);
    squares += other.squares + delta * delta * (count * other.count / total);
    count = total;
  }
};

template <class C, int N>
__global__ void __launch_bounds__(threads)
    moments_kernel(Operand x, Segments segments, int64_t splits, Moments* parts) {
  __shared__ double scratch[warp_size];
  const int64_t segment = blockIdx.x / splits, split = blockIdx.x % splits;
  const int64_t size = segments.size();
  Moments all;
  for (int64_t begin = split * chunk_size<N>; begin < size; begin += splits * chunk_size<N>) {
    Fetched<C, N> in[held<N>];
    const auto index = [&](int k) { return begin + (int64_t{k} * threads + threadIdx.x) * N; };
#pragma unroll
    for (int k = 0; k < held<N>; ++k)
      if (index(k) < size) in[k] = fetch<C, N>(x, segments.at(segment, index(k)));
    const auto sum_of = [&](auto f) {
      C sum = 0;
#pragma unroll
      for (int k = 0; k < held<N>; ++k) {
        if (index(k) >= size) continue;
        C values[N];
        widen(in[k], x.dtype, values);
#pragma unroll
        for (int i = 0; i < N; ++i) sum += f(values[i]);
      }
      return reduce_block(static_cast<double>(sum), Sum(), 0.0, scratch);
    };
    Moments chunk;
    chunk.count = static_cast<double>(size - begin < chunk_size<N> ? size - begin : chunk_size<N>);
    chunk.mean = sum_of([](C v) { return v; }) / chunk.count;
    const C center = static_cast<C>(chunk.mean);
    chunk.squares = sum_of([&](C v) { return (v - center) * (v - center); });
    all.join(chunk);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

template <class C>
__global__ void finish_moments(const Moments* parts, int64_t splits, int64_t count, C eps,
                               Operand mean, Operand rstd) {
  const int64_t segment = first_item();
  if (segment >= count) return;
  Moments all;
  for (int64_t i = 0; i < splits; ++i) all.join(parts[segment * splits + i]);
  const C variance = static_cast<C>(all.squares) / static_cast<C>(all.count);
  store_one(mean, segment, static_cast<C>(all.mean));
  store_one(rstd, segment, C{1} / sqrt(variance + eps));
}

template <class C, int N>
void find_moments(const TensorView& x, const Segments& segments, double eps, const TensorView& mean,
                  const TensorView& rstd) {
  const int64_t splits = splits_for(segments, chunk_size<N>);
  const Tensor parts =
      workspace({segments.count * splits, sizeof(Moments) / sizeof(double)}, DType::f64);
  auto* moments = static_cast<Moments*>(parts.raw_data());
  launch(moments_kernel<C, N>, static_cast<unsigned>(segments.count * splits), threads, 0, x,
         segments, splits, moments);
  launch(finish_moments<C>, static_cast<unsigned>(divide_up(segments.count, threads)), threads, 0,
         moments, splits, segments.count, eps, mean, rstd);
}

// ---- y ----

struct Apply {
  Operand x, weight, bias, mean, rstd, y;
  int64_t inner;
  RowMap map;
  int64_t total;
};

template <class C, int N>
__global__ void apply_kernel(const __grid_constant__ Apply a) {
  const int64_t at = first_item() * N;
  if (at >= a.total) return;
  C values[N];
  load(a.x, at, values);
  const int64_t row = quotient(at, a.inner), channel = a.map.channel(row),
                which = a.map.statistic(row);
  const C center = load_one<C>(a.mean, which);
  const C scale = load_one<C>(a.rstd, which) * (a.weight ? load_one<C>(a.weight, channel) : C{1});
  const C offset = a.bias ? load_one<C>(a.bias, channel) : C{0};
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = (values[i] - center) * scale + offset;
  store(a.y, at, values);
}

void forward(const char* op, const Problem& problem, const ChannelNormForward& args) {
  require_compute(op, {&args.x, &args.weight, &args.bias, &args.y, &args.mean, &args.rstd});
  with_packing(args.x.dtype, pack_size(problem.inner, {&args.x, &args.y}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    if (args.training)
      find_moments<C, P::size>(args.x, problem.together, args.eps, args.mean, args.rstd);
    const int64_t total = args.x.numel();
    const Apply apply{.x = args.x,
                      .weight = args.weight,
                      .bias = args.bias,
                      .mean = args.mean,
                      .rstd = args.rstd,
                      .y = args.y,
                      .inner = problem.inner,
                      .map = problem.map,
                      .total = total};
    launch(apply_kernel<C, P::size>, static_cast<unsigned>(divide_up(total / P::size, threads)),
           threads, 0, apply);
  });
}

// ---- backward ----

// The sums of dy and of dy * (x - mean) over a segment.
struct GradientSums {
  double plain = 0, centered = 0;
};

struct SumGradients {
  Operand dy, x, mean;
  Segments segments;
  RowMap map;
  int64_t splits;
  GradientSums* parts;
};

template <class C, int N>
__global__ void __launch_bounds__(threads)
    gradient_sums_kernel(const __grid_constant__ SumGradients a) {
  __shared__ double scratch[warp_size];
  const int64_t segment = blockIdx.x / a.splits, split = blockIdx.x % a.splits;
  const int64_t size = a.segments.size();
  const C center = load_one<C>(a.mean, a.map.statistic(segment));
  C plain = 0, centered = 0;
  const int64_t step = a.splits * threads * N;
#pragma unroll 2
  for (int64_t j = (split * threads + threadIdx.x) * N; j < size; j += step) {
    const int64_t at = a.segments.at(segment, j);
    const Fetched<C, N> fetched_dy = fetch<C, N>(a.dy, at), fetched_x = fetch<C, N>(a.x, at);
    C g[N], v[N];
    widen(fetched_dy, a.dy.dtype, g);
    widen(fetched_x, a.x.dtype, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      plain += g[i];
      centered += g[i] * (v[i] - center);
    }
  }
  GradientSums sums;
  sums.plain = reduce_block(static_cast<double>(plain), Sum(), 0.0, scratch);
  sums.centered = reduce_block(static_cast<double>(centered), Sum(), 0.0, scratch);
  if (threadIdx.x == 0) a.parts[blockIdx.x] = sums;
}

__device__ GradientSums join(const GradientSums* parts, int64_t splits, int64_t segment) {
  GradientSums sums;
  for (int64_t i = 0; i < splits; ++i) {
    sums.plain += parts[segment * splits + i].plain;
    sums.centered += parts[segment * splits + i].centered;
  }
  return sums;
}

template <class C>
struct Gradients {
  const GradientSums* parts;
  int64_t splits;
  Operand weight, rstd;
  TargetOperand dweight, dbias;
  C* slopes;  // per mean: dx = dy * rstd * weight + (x - mean) * slope + offset
  C* offsets;

  __device__ C weight_of(int64_t channel) const {
    return weight ? load_one<C>(weight, channel) : C{1};
  }
};

// Without training the statistics do not depend on x: no gradient reaches x through them.
template <class C>
__global__ void finish_batch(Gradients<C> a, int64_t channels, int64_t size, bool training) {
  const int64_t channel = first_item();
  if (channel >= channels) return;
  const GradientSums sums = join(a.parts, a.splits, channel);
  const C scale = load_one<C>(a.rstd, channel), factor = scale * a.weight_of(channel);
  if (a.dweight) store_one(a.dweight, channel, static_cast<C>(sums.centered) * scale);
  if (a.dbias) store_one(a.dbias, channel, static_cast<C>(sums.plain));
  const double count = static_cast<double>(size);
  a.slopes[channel] =
      training ? -factor * scale * scale * static_cast<C>(sums.centered / count) : C{0};
  a.offsets[channel] = training ? -factor * static_cast<C>(sums.plain / count) : C{0};
}

template <class C>
__global__ void finish_groups(Gradients<C> a, int64_t groups, RowMap map, int64_t size) {
  const int64_t group = first_item();
  if (group >= groups) return;
  const C scale = load_one<C>(a.rstd, group);
  C plain = 0, centered = 0;
  for (int64_t row = group * map.group_rows; row < (group + 1) * map.group_rows; ++row) {
    const GradientSums sums = join(a.parts, a.splits, row);
    const C weight = a.weight_of(map.channel(row));
    plain += weight * static_cast<C>(sums.plain);
    centered += weight * (scale * static_cast<C>(sums.centered));
  }
  a.slopes[group] = -scale * scale * (centered / static_cast<C>(size));
  a.offsets[group] = -scale * (plain / static_cast<C>(size));
}

template <class C>
__global__ void finish_group_parameters(Gradients<C> a, int64_t rows, RowMap map) {
  const int64_t channel = first_item();
  if (channel >= map.channels) return;
  double weight_sum = 0, bias_sum = 0;
  for (int64_t row = channel; row < rows; row += map.channels) {
    const GradientSums sums = join(a.parts, a.splits, row);
    weight_sum += sums.centered * load_one<double>(a.rstd, map.statistic(row));
    bias_sum += sums.plain;
  }
  if (a.dweight) store_one(a.dweight, channel, static_cast<C>(weight_sum));
  if (a.dbias) store_one(a.dbias, channel, static_cast<C>(bias_sum));
}

template <class C>
struct InputGradient {
  Operand dy, x, mean;
  Gradients<C> gradients;
  Operand dx;
  int64_t inner;
  RowMap map;
  int64_t total;
};

template <class C, int N>
__global__ void gradient_kernel(const __grid_constant__ InputGradient<C> a) {
  const int64_t at = first_item() * N;
  if (at >= a.total) return;
  const Fetched<C, N> fetched_dy = fetch<C, N>(a.dy, at), fetched_x = fetch<C, N>(a.x, at);
  const int64_t row = quotient(at, a.inner), which = a.map.statistic(row);
  const Gradients<C>& known = a.gradients;
  const C center = load_one<C>(a.mean, which), slope = known.slopes[which],
          offset = known.offsets[which];
  const C scale = load_one<C>(known.rstd, which) * known.weight_of(a.map.channel(row));
  C g[N], v[N];
  widen(fetched_dy, a.dy.dtype, g);
  widen(fetched_x, a.x.dtype, v);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = g[i] * scale + ((v[i] - center) * slope + offset);
  store(a.dx, at, v);
}

// finish(gradients) launches the kernels that turn the segments' sums into parameter gradients,
// slopes and offsets.
template <class F>
void backward(const char* op, const Problem& problem, const ChannelNormBackward& args, F finish) {
  require_compute(op, {&args.dy, &args.x, &args.weight, &args.mean, &args.rstd, &args.dx,
                       &args.dweight.view, &args.dbias.view});
  const int pack = pack_size(problem.inner, {&args.dy, &args.x, &args.dx});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    constexpr int N = P::size;
    const Segments& segments = problem.gradient;
    const int64_t splits = splits_for(segments, chunk_size<N>);
    const int64_t statistics = problem.together.count;
    const Tensor parts = workspace({segments.count * splits, 2}, DType::f64);
    const Tensor lines = workspace({2, statistics}, dtype_of<C>);
    auto* sums = static_cast<GradientSums*>(parts.raw_data());
    C* slopes = static_cast<C*>(lines.raw_data());
    launch(gradient_sums_kernel<C, N>, static_cast<unsigned>(segments.count * splits), threads, 0,
           SumGradients{.dy = args.dy,
                        .x = args.x,
                        .mean = args.mean,
                        .segments = segments,
                        .map = problem.map,
                        .splits = splits,
                        .parts = sums});
    const Gradients<C> gradients{.parts = sums,
                                 .splits = splits,
                                 .weight = args.weight,
                                 .rstd = args.rstd,
                                 .dweight = args.dweight,
                                 .dbias = args.dbias,
                                 .slopes = slopes,
                                 .offsets = slopes + statistics};
    finish(gradients);
    if (!args.dx.present) return;
    const int64_t total = args.x.numel();
    launch(gradient_kernel<C, N>, static_cast<unsigned>(divide_up(total / N, threads)), threads, 0,
           InputGradient<C>{.dy = args.dy,
                            .x = args.x,
                            .mean = args.mean,
                            .gradients = gradients,
                            .dx = args.dx,
                            .inner = problem.inner,
                            .map = problem.map,
                            .total = total});
  });
}

unsigned blocks_for(int64_t count) { return static_cast<unsigned>(divide_up(count, threads)); }

}  // namespace

void batch_norm_forward(const ChannelNormForward& args) {
  forward("batch_norm", batch_problem(args.x), args);
}

void batch_norm_backward(const ChannelNormBackward& args) {
  const Problem problem = batch_problem(args.x);
  backward("batch_norm_backward", problem, args, [&]<class C>(const Gradients<C>& a) {
    launch(finish_batch<C>, blocks_for(problem.map.channels), threads, 0, a, problem.map.channels,
           problem.together.size(), args.training);
  });
}

void group_norm_forward(const ChannelNormForward& args) {
  forward("group_norm", group_problem(args.x), args);
}

void group_norm_backward(const ChannelNormBackward& args) {
  const Problem problem = group_problem(args.x);
  const int64_t groups = problem.together.count;
  backward("group_norm_backward", problem, args, [&]<class C>(const Gradients<C>& a) {
    launch(finish_groups<C>, blocks_for(groups), threads, 0, a, groups, problem.map,
           problem.together.size());
    launch(finish_group_parameters<C>, blocks_for(problem.map.channels), threads, 0, a,
           problem.rows, problem.map);
  });
}

}  // namespace binade::backend::cuda
