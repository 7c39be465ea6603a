#include <algorithm>

#include "binade/backend/cuda/common/async_copy.cuh"
#include "binade/backend/cuda/norm/backward.cuh"
#include "binade/backend/norm.h"

// Norm backward of 16-bit rows. Knowing the type saves the branches of norm/backward.cu; rows wait
// in shared memory instead of registers, so that more of them are on their way; and the weight
// stays in registers, since a load that hits the cache would wait for the rows asked for before it.
namespace binade::backend::cuda {
namespace {

constexpr int pack = 8;    // elements of 16 bits in 16 bytes
constexpr int stages = 2;  // rows of a team in shared memory

template <class T>
struct Rows {
  Operand dy, dsum, x;  // all of type T
  Operand weight;
  const float *mean, *rstd;  // mean is null for rms norm
  TargetOperand dx;
  NormPartials<float> partials;
  int64_t rows, width;
};

// This thread's packs of the rows its team computes next. It reads only what it copied itself, so
// it needs no barrier.
template <int K>
struct Ring {
  uint4* base;  // of this thread
  int threads;

  __device__ uint4& at(int stage, int operand, int k) const {
    return base[((stage * 3 + operand) * K + k) * threads];
  }

  // Starts copies of a row, which may lie past the end.
  template <class T>
  __device__ void copy_row(const Rows<T>& a, int64_t row, int stage) const {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = team_column<pack>(k), from = row * a.width + column;
      if (row >= a.rows || column >= a.width) continue;
      copy_async(&at(stage, 0, k), static_cast<const T*>(a.dy.data) + from, true);
      copy_async(&at(stage, 1, k), static_cast<const T*>(a.x.data) + from, true);
      if (a.dsum) copy_async(&at(stage, 2, k), static_cast<const T*>(a.dsum.data) + from, true);
    }
    end_copy_group();
  }

  template <class T>
  __device__ void read(int stage, int operand, int k, float (&out)[pack]) const {
    const uint4 words = at(stage, operand, k);
    widen(Fetched<float, pack>{{words.x, words.y, words.z, words.w}}, dtype_of<T>, out);
  }
};

// What a kernel computes beside dx and the weight's gradient.
enum class Extra { none, bias, bias_and_dx_sums };

struct RowStatistics {
  float center, scale;

  template <class T>
  __device__ static RowStatistics load(const Rows<T>& a, int64_t row) {
    if (row >= a.rows) return {};
    return {a.mean != nullptr ? a.mean[row] : 0, a.rstd[row]};
  }
};

// Sums of a row for its dx, as NormLine takes them; adds the row's terms to the parameters'
// gradients.
template <class T, int K, int M>
__device__ void add_row(const Rows<T>& a, const Ring<K>& ring, int stage,
                        const float (&weight)[K][pack], RowStatistics row, float (&sums)[M],
                        float (&dweight)[K][pack], float (&dbias)[K][pack]) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (team_column<pack>(k) >= a.width) continue;
    float dy[pack], x[pack];
    ring.template read<T>(stage, 0, k, dy);
    ring.template read<T>(stage, 1, k, x);
#pragma unroll
    for (int i = 0; i < pack; ++i) {
      const float deviation = M > 1 ? x[i] - row.center : x[i], g = dy[i] * weight[k][i];
      sums[0] += g * deviation;
      dweight[k][i] += dy[i] * (deviation * row.scale);
      if constexpr (M == 1) continue;
      sums[M - 1] += g;
      dbias[k][i] += dy[i];
    }
  }
}

template <Extra extra, class T, int K>
__device__ void write_dx(const Rows<T>& a, const Ring<K>& ring, int stage,
                         const float (&weight)[K][pack], int64_t row, RowStatistics statistics,
                         const NormLine<float>& line, float (&dx_sums)[K][pack]) {
  constexpr bool centered = extra != Extra::none;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t column = team_column<pack>(k), at = row * a.width + column;
    if (column >= a.width) continue;
    float dy[pack], x[pack], out[pack], more[pack];
    ring.template read<T>(stage, 0, k, dy);
    ring.template read<T>(stage, 1, k, x);
#pragma unroll
    for (int i = 0; i < pack; ++i) {
      const float deviation = centered ? x[i] - statistics.center : x[i];
      out[i] = dy[i] * weight[k][i] * statistics.scale + (deviation * line.slope + line.offset);
    }
    if (a.dsum) {
      ring.template read<T>(stage, 2, k, more);
#pragma unroll
      for (int i = 0; i < pack; ++i) out[i] += more[i];
    }
    const Operand dx(a.dx.data, dtype_of<T>);
    if (a.dx.accumulate) {
      load(dx, at, more);
#pragma unroll
      for (int i = 0; i < pack; ++i) out[i] += more[i];
    }
    if constexpr (extra == Extra::bias_and_dx_sums) {
      round_to(dtype_of<T>, out);
#pragma unroll
      for (int i = 0; i < pack; ++i) dx_sums[k][i] += out[i];
    }
    store(dx, at, out);
  }
}

// A block computes rows a grid apart and keeps the parameters' gradients in registers.
template <class T, int K, int Threads, int Blocks, Extra extra>
__global__ void __launch_bounds__(Threads, Blocks)
    backward_rows_kernel(const __grid_constant__ Rows<T> a) {
  constexpr bool centered = extra != Extra::none;
  extern __shared__ uint4 dynamic[];
  constexpr int sum_count = centered ? 2 : 1;
  __shared__ float scratch[2][sum_count][warp_size];
  const Ring<K> ring{dynamic + threadIdx.y * blockDim.x + threadIdx.x,
                     static_cast<int>(blockDim.x * blockDim.y)};
  float dweight[K][pack] = {}, dbias[K][pack] = {}, dx_sums[K][pack] = {}, weight[K][pack] = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) ring.copy_row(a, row + stage * step, stage);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (team_column<pack>(k) < a.width)
      load_parameter(a.weight, team_column<pack>(k), 1.0f, weight[k]);
  }
  RowStatistics next = RowStatistics::load(a, row);
  for (int stage = 0, parity = 0; row < a.rows; row += step, parity ^= 1) {
    const RowStatistics statistics = next;
    wait_copy_groups<stages - 2>();
    ring.copy_row(a, row + (stages - 1) * step, (stage + stages - 1) % stages);
    next = RowStatistics::load(a, row + step);
    float sums[sum_count] = {};
    add_row(a, ring, stage, weight, statistics, sums, dweight, dbias);
    team_sums(sums, scratch, parity);
    write_dx<extra>(a, ring, stage, weight, row, statistics,
                    NormLine<float>(centered, a.width, statistics.scale, sums), dx_sums);
    stage = (stage + 1) % stages;
  }
  if (!a.partials) return;
  wait_copies();
  __syncthreads();  // the ring is no longer read
  float* shared = reinterpret_cast<float*>(dynamic);
  a.partials.write(weight_sum, shared, dweight);
  if (centered) a.partials.write(bias_sum, shared, dbias);
  if (extra == Extra::bias_and_dx_sums) a.partials.write(dx_sum, shared, dx_sums);
}

// ---- on the host ----

struct Launch {
  const NormBackward& args;
  int64_t rows, width;

  template <class T, int K, int Threads, int Blocks, Extra extra>
  void start(int64_t team) const {
    const auto kernel = backward_rows_kernel<T, K, Threads, Blocks, extra>;
    const int per_block = team == warp_size ? Threads / warp_size : 1;
    const dim3 block(static_cast<unsigned>(team), per_block);
    const size_t shared = std::max(sizeof(uint4) * stages * 3 * K * block.x * block.y,
                                   per_block > 1 ? sizeof(float) * width : size_t{0});
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "cudaFuncSetAttribute");
    int resident = 1;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
              &resident, kernel, static_cast<int>(block.x * block.y), shared),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    const int64_t blocks = std::min(divide_up(rows, per_block),
                                    int64_t{properties().multiprocessors} * std::max(resident, 1));
    const NormSums<float> sums({args.dweight, args.dbias, args.dx_sums}, blocks, width);
    const auto statistics = [](const TensorView& x) {
      return x.present ? x.as<const float>() : nullptr;
    };
    launch(kernel, static_cast<unsigned>(blocks), block, shared,
           Rows<T>{.dy = args.dy,
                   .dsum = args.dsum,
                   .x = args.x,
                   .weight = args.weight,
                   .mean = statistics(args.mean),
                   .rstd = statistics(args.rstd),
                   .dx = args.dx,
                   .partials = sums.partials(),
                   .rows = rows,
                   .width = width});
    sums.finish();
  }

  // A warp per row if it can hold the row, else a block. More warps on a multiprocessor than those
  // of three blocks of 128 threads gain nothing.
  template <class T, Extra extra>
  bool start_for_width() const {
    constexpr int warps = 128, block = 512;
    const int64_t packs = width / pack;
    if (packs <= warp_size) return start<T, 1, warps, 3, extra>(warp_size), true;
    if (packs <= 2 * warp_size) return start<T, 2, warps, 3, extra>(warp_size), true;
    if (packs <= 3 * warp_size) return start<T, 3, warps, 3, extra>(warp_size), true;
    const auto team_for = [&](int held) { return warp_size * divide_up(packs, held * warp_size); };
    if (packs <= block) return start<T, 1, block, 2, extra>(team_for(1)), true;
    if (packs <= 2 * block) return start<T, 2, block, 1, extra>(team_for(2)), true;
    return false;
  }
};

}  // namespace

bool norm_backward_16bit(const NormBackward& args) {
  const DType type = args.x.dtype;
  const int64_t width = args.x.shape.back();
  const auto is_f32 = [](const TensorView& x) { return !x.present || x.dtype == DType::f32; };
  const auto same = [&](const TensorView& x) { return !x.present || x.dtype == type; };
  if (type != DType::bf16 && type != DType::f16) return false;
  if (!args.dx.present() || args.x.numel() == 0) return false;
  if (args.kind == NormKind::rms && (args.dbias.present() || args.dx_sums.present())) return false;
  if (!same(args.dy) || !same(args.dsum) || !same(args.dx.view)) return false;
  if (!is_f32(args.mean) || !is_f32(args.rstd)) return false;
  if (pack_size(width, {&args.dy, &args.dsum, &args.x, &args.dx.view}, {&args.weight}) != pack)
    return false;
  const Launch launch{args, args.x.numel() / width, width};
  const auto start = [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.kind == NormKind::rms) return launch.start_for_width<T, Extra::none>();
    if (!args.dx_sums.present()) return launch.start_for_width<T, Extra::bias>();
    return launch.start_for_width<T, Extra::bias_and_dx_sums>();
  };
  return type == DType::bf16 ? start(TypeTag<bf16>{}) : start(TypeTag<f16>{});
}

}  // namespace binade::backend::cuda
