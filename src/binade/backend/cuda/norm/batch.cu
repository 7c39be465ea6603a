#include "binade/backend/cuda/norm/batch.h"

#include <algorithm>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"

// Batch and group norm differ in what is normalized together and in nothing else. x is a list of
// rows of `inner` elements, one per sample and channel. Batch norm has one mean per channel, group
// norm one per run of rows.
namespace binade::backend::cuda {
namespace {

constexpr int threads = 256;

// Elements that are summed together: `rows` rows of `inner` elements, `row_stride` apart.
struct Segments {
  int64_t count, rows, inner, stride, row_stride;

  BINADE_HD int64_t size() const { return rows * inner; }
  // Where element j of a segment lies.
  __device__ int64_t at(int64_t segment, int64_t j) const {
    const int64_t row = rows == 1 ? 0 : quotient(j, inner);
    return segment * stride + row * row_stride + (j - row * inner);
  }
};

// Which weight and which mean a row of x belongs to.
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
  Segments together;  // what shares a mean
  Segments gradient;  // what the backward sums: whole channels, or the rows of groups
};

Problem batch_problem(const TensorView& x) {
  const int64_t n = x.shape[0], channels = x.shape[1], inner = x.shape[2];
  const Segments whole{channels, n, inner, inner, channels * inner};
  return {n * channels, inner, {channels, 0}, whole, whole};
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
  constexpr int64_t most = 64;
  const int64_t wanted = ceil_div<int64_t>(4 * int64_t{properties().multiprocessors},
                                           std::max<int64_t>(segments.count, 1));
  return std::clamp<int64_t>(ceil_div(segments.size(), chunk), 1, std::min(wanted, most));
}

// ---- mean and variance: chunks two-pass in registers, joined by Chan's formula in f64 ----

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
    const auto place = [&](int k) { return begin + (int64_t{k} * threads + threadIdx.x) * N; };
#pragma unroll
    for (int k = 0; k < held<N>; ++k)
      if (place(k) < size) in[k] = fetch<C, N>(x, segments.at(segment, place(k)));
    const auto sum_of = [&](auto f) {
      C sum = 0;
#pragma unroll
      for (int k = 0; k < held<N>; ++k) {
        if (place(k) >= size) continue;
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
  launch(finish_moments<C>, static_cast<unsigned>(ceil_div<int64_t>(segments.count, threads)),
         threads, 0, moments, splits, segments.count, eps, mean, rstd);
}

// ---- y ----

template <class C, int N>
__global__ void apply_kernel(Operand x, Operand weight, Operand bias, Operand mean, Operand rstd,
                             Operand y, int64_t inner, RowMap map, int64_t total) {
  const int64_t at = first_item() * N;
  if (at >= total) return;
  C values[N];
  load(x, at, values);
  const int64_t row = quotient(at, inner), channel = map.channel(row), which = map.statistic(row);
  const C center = load_one<C>(mean, which);
  const C scale = load_one<C>(rstd, which) * (weight ? load_one<C>(weight, channel) : C{1});
  const C offset = bias ? load_one<C>(bias, channel) : C{0};
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = (values[i] - center) * scale + offset;
  store(y, at, values);
}

void forward(const char* op, const Problem& problem, const TensorView& x, const TensorView& weight,
             const TensorView& bias, double eps, bool training, const TensorView& y,
             const TensorView& mean, const TensorView& rstd) {
  require_compute(op, {&x, &weight, &bias, &y, &mean, &rstd});
  with_packing(x.dtype, pack_size(problem.inner, {&x, &y}), [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    if (training) find_moments<C, P::size>(x, problem.together, eps, mean, rstd);
    const int64_t total = x.numel();
    launch(apply_kernel<C, P::size>,
           static_cast<unsigned>(ceil_div<int64_t>(total / P::size, threads)), threads, 0, x,
           weight, bias, mean, rstd, y, problem.inner, problem.map, total);
  });
}

// ---- backward ----

// The sums of dy and of dy * (x - mean) over a segment.
struct GradientSums {
  double plain = 0, centered = 0;
};

template <class C, int N>
__global__ void __launch_bounds__(threads)
    gradient_sums_kernel(Operand dy, Operand x, Operand mean, Segments segments, RowMap map,
                         int64_t splits, GradientSums* parts) {
  __shared__ double scratch[warp_size];
  const int64_t segment = blockIdx.x / splits, split = blockIdx.x % splits;
  const int64_t size = segments.size();
  const C center = load_one<C>(mean, map.statistic(segment));
  C plain = 0, centered = 0;
  const int64_t step = splits * threads * N;
#pragma unroll 2
  for (int64_t j = (split * threads + threadIdx.x) * N; j < size; j += step) {
    const int64_t at = segments.at(segment, j);
    const Fetched<C, N> fetched_dy = fetch<C, N>(dy, at), fetched_x = fetch<C, N>(x, at);
    C g[N], v[N];
    widen(fetched_dy, dy.dtype, g);
    widen(fetched_x, x.dtype, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      plain += g[i];
      centered += g[i] * (v[i] - center);
    }
  }
  GradientSums sums;
  sums.plain = reduce_block(static_cast<double>(plain), Sum(), 0.0, scratch);
  sums.centered = reduce_block(static_cast<double>(centered), Sum(), 0.0, scratch);
  if (threadIdx.x == 0) parts[blockIdx.x] = sums;
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
  Operand weight, rstd, dweight, dbias;
  bool accumulate;
  C* slopes;  // per mean: dx = dy * rstd * weight + (x - mean) * slope + offset
  C* offsets;

  __device__ C weight_of(int64_t channel) const {
    return weight ? load_one<C>(weight, channel) : C{1};
  }
};

// Given statistics (not training) do not depend on x, so nothing flows through them.
template <class C>
__global__ void finish_batch(Gradients<C> a, int64_t channels, int64_t size, bool training) {
  const int64_t channel = first_item();
  if (channel >= channels) return;
  const GradientSums sums = join(a.parts, a.splits, channel);
  const C scale = load_one<C>(a.rstd, channel), factor = scale * a.weight_of(channel);
  if (a.dweight) store_one(a.dweight, channel, static_cast<C>(sums.centered) * scale, a.accumulate);
  if (a.dbias) store_one(a.dbias, channel, static_cast<C>(sums.plain), a.accumulate);
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
  if (a.dweight) store_one(a.dweight, channel, static_cast<C>(weight_sum), a.accumulate);
  if (a.dbias) store_one(a.dbias, channel, static_cast<C>(bias_sum), a.accumulate);
}

template <class C, int N>
__global__ void gradient_kernel(Operand dy, Operand x, Operand mean, Gradients<C> a, Operand dx,
                                int64_t inner, RowMap map, int64_t total) {
  const int64_t at = first_item() * N;
  if (at >= total) return;
  const Fetched<C, N> fetched_dy = fetch<C, N>(dy, at), fetched_x = fetch<C, N>(x, at);
  const int64_t row = quotient(at, inner), which = map.statistic(row);
  const C center = load_one<C>(mean, which), slope = a.slopes[which], offset = a.offsets[which];
  const C scale = load_one<C>(a.rstd, which) * a.weight_of(map.channel(row));
  C g[N], v[N];
  widen(fetched_dy, dy.dtype, g);
  widen(fetched_x, x.dtype, v);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = g[i] * scale + ((v[i] - center) * slope + offset);
  store(dx, at, v);
}

template <class F>
void backward(const char* op, const Problem& problem, const TensorView& dy, const TensorView& x,
              const TensorView& weight, const TensorView& mean, const TensorView& rstd,
              const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
              bool accumulate, F finish) {
  require_compute(op, {&dy, &x, &weight, &mean, &rstd, &dx, &dweight, &dbias});
  with_packing(x.dtype, pack_size(problem.inner, {&dy, &x, &dx}), [&](auto packing) {
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
           dy, x, mean, segments, problem.map, splits, sums);
    const Gradients<C> a{
        sums, splits, weight, rstd, dweight, dbias, accumulate, slopes, slopes + statistics};
    finish(a);
    if (!dx.present) return;
    const int64_t total = x.numel();
    launch(gradient_kernel<C, N>, static_cast<unsigned>(ceil_div<int64_t>(total / N, threads)),
           threads, 0, dy, x, mean, a, dx, problem.inner, problem.map, total);
  });
}

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>(ceil_div<int64_t>(count, threads));
}

}  // namespace

void batch_norm_forward(TensorView x, TensorView weight, TensorView bias, double eps, bool training,
                        TensorView y, TensorView mean, TensorView rstd) {
  forward("batch_norm", batch_problem(x), x, weight, bias, eps, training, y, mean, rstd);
}

void batch_norm_backward(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                         TensorView rstd, bool training, TensorView dx, TensorView dweight,
                         TensorView dbias, bool accumulate_parameters) {
  const Problem problem = batch_problem(x);
  backward("batch_norm_backward", problem, dy, x, weight, mean, rstd, dx, dweight, dbias,
           accumulate_parameters, [&]<class C>(const Gradients<C>& a) {
             launch(finish_batch<C>, blocks_for(problem.map.channels), threads, 0, a,
                    problem.map.channels, problem.together.size(), training);
           });
}

void group_norm_forward(TensorView x, TensorView weight, TensorView bias, double eps, TensorView y,
                        TensorView mean, TensorView rstd) {
  forward("group_norm", group_problem(x), x, weight, bias, eps, true, y, mean, rstd);
}

void group_norm_backward(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                         TensorView rstd, TensorView dx, TensorView dweight, TensorView dbias,
                         bool accumulate_parameters) {
  const Problem problem = group_problem(x);
  const int64_t groups = problem.together.count;
  backward("group_norm_backward", problem, dy, x, weight, mean, rstd, dx, dweight, dbias,
           accumulate_parameters, [&]<class C>(const Gradients<C>& a) {
             launch(finish_groups<C>, blocks_for(groups), threads, 0, a, groups, problem.map,
                    problem.together.size());
             launch(finish_group_parameters<C>, blocks_for(problem.map.channels), threads, 0, a,
                    problem.rows, problem.map);
           });
}

}  // namespace binade::backend::cuda
