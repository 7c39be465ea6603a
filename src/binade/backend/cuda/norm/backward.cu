#include "binade/backend/cuda/norm/backward.h"

#include <algorithm>

#include "binade/backend/cuda/kernels.h"
#include "binade/backend/cuda/norm/backward.cuh"

namespace binade::backend::cuda {
namespace {

template <class C>
struct Backward {
  bool centered;  // layer norm
  Operand dy, dsum, x, weight, mean, rstd;
  TargetOperand dx;
  NormPartials<C> partials;
  int64_t rows, width;

  __device__ C center(int64_t row) const { return centered ? load_one<C>(mean, row) : C{0}; }
  __device__ NormLine<C> line(C scale, const C (&sums)[2]) const {
    return {centered, width, scale, sums};
  }
};

// This thread's packs of a row.
template <class C, int N, int K>
struct RowPart {
  Fetched<C, N> dy[K], x[K], dsum[K];
  C center, scale;

  __device__ void read(const Backward<C>& a, int64_t row) {
    const int64_t base = row * a.width;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (column_of(k) >= a.width) continue;
      dy[k] = fetch<C, N>(a.dy, base + column_of(k));
      x[k] = fetch<C, N>(a.x, base + column_of(k));
      if (a.dsum) dsum[k] = fetch<C, N>(a.dsum, base + column_of(k));
    }
    center = a.center(row);
    scale = load_one<C>(a.rstd, row);
  }

  __device__ static int64_t column_of(int k) { return team_column<N>(k); }
};

// Sums of a row for its dx; adds the row's terms to the parameters' gradients.
template <class C, int N, int K>
__device__ void add_row(const Backward<C>& a, const RowPart<C, N, K>& part, C (&sums)[2],
                        C (&dweight)[K][N], C (&dbias)[K][N]) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (part.column_of(k) >= a.width) continue;
    C dy[N], x[N], weight[N];
    widen(part.dy[k], a.dy.dtype, dy);
    widen(part.x[k], a.x.dtype, x);
    load_parameter(a.weight, part.column_of(k), C{1}, weight);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C deviation = x[i] - part.center, g = dy[i] * weight[i];
      sums[1] += g;
      sums[0] += g * deviation;
      dweight[k][i] += dy[i] * (deviation * part.scale);
      dbias[k][i] += dy[i];
    }
  }
}

template <class C, int N, int K>
__device__ void write_dx(const Backward<C>& a, const RowPart<C, N, K>& part, int64_t row,
                         const NormLine<C>& line) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t column = part.column_of(k);
    if (column >= a.width) continue;
    const int64_t at = row * a.width + column;
    C dy[N], x[N], weight[N], out[N], more[N];
    widen(part.dy[k], a.dy.dtype, dy);
    widen(part.x[k], a.x.dtype, x);
    load_parameter(a.weight, column, C{1}, weight);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out[i] = dy[i] * weight[i] * part.scale + ((x[i] - part.center) * line.slope + line.offset);
    }
    if (a.dsum) {
      widen(part.dsum[k], a.dsum.dtype, more);
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] += more[i];
    }
    if (a.dx.accumulate) {
      load(a.dx, at, more);
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] += more[i];
    }
    store(a.dx, at, out);
  }
}

// A block processes rows a grid apart and keeps the sums for the parameters in registers. The next
// row is loaded while the current one is processed.
template <class C, int N, int K, int Threads>
__global__ void __launch_bounds__(Threads) backward_kernel(const __grid_constant__ Backward<C> a) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  __shared__ C scratch[2][2][warp_size];
  constexpr bool ahead = K <= 3;  // more would not fit in registers
  C dweight[K][N] = {}, dbias[K][N] = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  RowPart<C, N, K> next;
  if (ahead && row < a.rows) next.read(a, row);
  for (int parity = 0; row < a.rows; row += step, parity ^= 1) {
    RowPart<C, N, K> part;
    if constexpr (ahead) {
      part = next;
      if (row + step < a.rows) next.read(a, row + step);
    } else {
      part.read(a, row);
    }
    C sums[2] = {};
    add_row(a, part, sums, dweight, dbias);
    if (!a.dx) continue;
    team_sums(sums, scratch, parity);
    write_dx(a, part, row, a.line(part.scale, sums));
  }
  if (!a.partials) return;
  a.partials.write(weight_sum, reinterpret_cast<C*>(dynamic), dweight);
  a.partials.write(bias_sum, reinterpret_cast<C*>(dynamic), dbias);
}

// ---- rows too wide for registers: a pass for dx, another for the parameters ----

constexpr int wide_threads = 512;

template <class C>
__global__ void __launch_bounds__(wide_threads) wide_dx(const __grid_constant__ Backward<C> a) {
  __shared__ C scratch[2][2][warp_size];
  const int64_t row = blockIdx.x, base = row * a.width;
  const C center = a.center(row), scale = load_one<C>(a.rstd, row);
  const auto gradient = [&](int64_t column) {
    return load_one<C>(a.dy, base + column) * (a.weight ? load_one<C>(a.weight, column) : C{1});
  };
  C sums[2] = {};
  for (int64_t column = threadIdx.x; column < a.width; column += blockDim.x) {
    const C g = gradient(column);
    sums[1] += g;
    sums[0] += g * (load_one<C>(a.x, base + column) - center);
  }
  team_sums(sums, scratch, 0);
  const NormLine<C> line = a.line(scale, sums);
  for (int64_t column = threadIdx.x; column < a.width; column += blockDim.x) {
    const C deviation = load_one<C>(a.x, base + column) - center;
    C out = gradient(column) * scale + (deviation * line.slope + line.offset);
    if (a.dsum) out += load_one<C>(a.dsum, base + column);
    store_one(a.dx, base + column, out);
  }
}

template <class C>
__global__ void wide_parameters(const __grid_constant__ Backward<C> a) {
  const int64_t column = first_item();
  if (column >= a.width) return;
  C dweight = 0, dbias = 0;
  for (int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const C dy = load_one<C>(a.dy, row * a.width + column);
    const C deviation = load_one<C>(a.x, row * a.width + column) - a.center(row);
    dweight += dy * (deviation * load_one<C>(a.rstd, row));
    dbias += dy;
  }
  a.partials.of(blockIdx.y, weight_sum)[column] = dweight;
  a.partials.of(blockIdx.y, bias_sum)[column] = dbias;
}

// ---- the sums of all blocks ----

constexpr int finish_rows = 32;

struct FinishTargets {
  TargetOperand of[3];  // by NormSum
};

template <class C>
__global__ void finish_sums(NormPartials<C> partials, int64_t blocks,
                            const __grid_constant__ FinishTargets targets) {
  __shared__ C sums[finish_rows][warp_size];
  const int kind = static_cast<int>(blockIdx.y);
  const TargetOperand& target = targets.of[kind];
  if (!target) return;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * warp_size + threadIdx.x;
  C sum = 0;
  if (column < partials.width) {
#pragma unroll 8
    for (int64_t block = threadIdx.y; block < blocks; block += finish_rows)
      sum += partials.of(block, kind)[column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= partials.width) return;
  for (int i = 1; i < finish_rows; ++i) sum += sums[i][threadIdx.x];
  store_one(target, column, sum);
}

// ---- on the host ----

template <class C, int N, int K, int Threads>
void start_held(Backward<C> a, int64_t team, const NormSumTargets& targets) {
  const auto kernel = backward_kernel<C, N, K, Threads>;
  const int per_block = team == warp_size ? Threads / warp_size : 1;
  const dim3 block(static_cast<unsigned>(team), per_block);
  const size_t shared = per_block > 1 ? static_cast<size_t>(a.width) * sizeof(C) : 0;
  int resident = 1;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel,
                                                      static_cast<int>(block.x * block.y), shared),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int64_t blocks = std::min(divide_up(a.rows, per_block),
                                  int64_t{properties().multiprocessors} * std::max(resident, 1));
  const NormSums<C> sums(targets, blocks, a.width);
  a.partials = sums.partials();
  launch(kernel, static_cast<unsigned>(blocks), block, shared, a);
  sums.finish();
}

template <class C>
void start_wide(Backward<C> a, const NormSumTargets& targets) {
  constexpr int64_t max_chunks = 64;
  const int64_t chunks = std::min(a.rows, max_chunks);
  const NormSums<C> sums(targets, chunks, a.width);
  a.partials = sums.partials();
  if (a.dx.data != nullptr) launch(wide_dx<C>, static_cast<unsigned>(a.rows), wide_threads, 0, a);
  if (a.partials.data != nullptr) {
    constexpr int threads = 128;
    const auto columns = static_cast<unsigned>(divide_up(a.width, threads));
    launch(wide_parameters<C>, dim3(columns, static_cast<unsigned>(chunks)), threads, 0, a);
  }
  sums.finish();
}

template <class C, int N>
void start_backward(const Backward<C>& a, const NormSumTargets& targets) {
  constexpr int warp_block = 128, block = 512;
  const int64_t packs = a.width / N;
  const auto team_for = [&](int held) { return warp_size * divide_up(packs, held * warp_size); };
  if (packs <= warp_size) return start_held<C, N, 1, warp_block>(a, warp_size, targets);
  if (packs <= 2 * warp_size) return start_held<C, N, 2, warp_block>(a, warp_size, targets);
  if (packs <= 3 * warp_size) return start_held<C, N, 3, warp_block>(a, warp_size, targets);
  if (packs <= 2 * block) return start_held<C, N, 2, block>(a, team_for(2), targets);
  if (packs <= 4 * block) return start_held<C, N, 4, block>(a, team_for(4), targets);
  start_wide<C>(a, targets);
}

}  // namespace

template <class C>
NormSums<C>::NormSums(const NormSumTargets& targets, int64_t blocks, int64_t width)
    : targets_(targets), blocks_(blocks), width_(width) {
  const bool any = std::any_of(targets.begin(), targets.end(),
                               [](const Target& target) { return target.present(); });
  const int64_t kinds = targets[dx_sum].present() ? 3 : 2;
  if (any) sums_ = workspace({blocks, kinds, width}, dtype_of<C>);
}

template <class C>
NormPartials<C> NormSums<C>::partials() const {
  if (!sums_.defined()) return {};
  return {.data = static_cast<C*>(sums_.raw_data()),
          .width = width_,
          .kinds = static_cast<int>(sums_.size(1))};
}

template <class C>
void NormSums<C>::finish() const {
  if (!sums_.defined()) return;
  const dim3 grid(static_cast<unsigned>(divide_up(width_, warp_size)),
                  static_cast<unsigned>(sums_.size(1)));
  launch(finish_sums<C>, grid, dim3(warp_size, finish_rows), 0, partials(), blocks_,
         FinishTargets{{targets_[weight_sum], targets_[bias_sum], targets_[dx_sum]}});
}

template class NormSums<float>;
template class NormSums<double>;

void norm_backward(const NormBackward& args) {
  require_compute("norm_backward",
                  {&args.dy, &args.dsum, &args.x, &args.weight, &args.mean, &args.rstd,
                   &args.dx.view, &args.dweight.view, &args.dbias.view});
  const int64_t width = args.x.shape.back();
  if (width == 0 || norm_backward_16bit(args)) return;
  const int pack = pack_size(width, {&args.dy, &args.dsum, &args.x, &args.dx.view}, {&args.weight});
  with_packing(args.x.dtype, pack, [&](auto packing) {
    using P = decltype(packing);
    using C = typename P::type;
    const Backward<C> a{.centered = args.kind == NormKind::layer,
                        .dy = args.dy,
                        .dsum = args.dsum,
                        .x = args.x,
                        .weight = args.weight,
                        .mean = args.mean,
                        .rstd = args.rstd,
                        .dx = args.dx,
                        .partials = {},
                        .rows = args.x.numel() / width,
                        .width = width};
    start_backward<C, P::size>(a, {args.dweight, args.dbias});
  });
  if (args.dx_sums.present()) reduce_kernels.reduce(Reduction::sum, args.dx.view, args.dx_sums);
}

}  // namespace binade::backend::cuda
