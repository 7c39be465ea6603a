#pragma once

#include <algorithm>

#include "binade/backend/cuda/common/dynamic_operand.cuh"

// Shared by the kernels of batch norm over rows. A thread has one pack of channels and walks down
// the rows, so parameters stay in registers and each pass over x is one read. Sums over rows are
// made by threads, merged in blocks and then over blocks, always in the same order.
namespace binade::backend::cuda {

inline constexpr int row_threads = 256;
// Packs of a row per block: 512 bytes of 16-bit elements, whole memory transactions.
inline constexpr int max_row_packs = 32;

// Rows are taken in chunks of `lines * held`; block s of `splits` has chunks s, s + splits, ...
// There are as many blocks as run at once, `resident` per multiprocessor.
template <int held, int resident>
struct RowTiling {
  int64_t rows, channels;
  int packs, lines;       // of a block: threads along a row, and rows at a time
  int64_t tiles, splits;  // blocks along a row, and along the rows
  int64_t chunks;
  int64_t each, longer;  // the first `longer` blocks have one chunk more than `each`

  RowTiling(int64_t rows_given, int64_t channels_given, int pack)
      : rows(rows_given), channels(channels_given) {
    const int64_t all = channels / pack;
    packs = static_cast<int>(std::clamp<int64_t>(all, 1, max_row_packs));
    lines = row_threads / packs;
    tiles = divide_up(all, packs);
    const int64_t blocks = int64_t{properties().multiprocessors} * resident;
    chunks = divide_up(rows, chunk_rows());
    splits =
        std::clamp<int64_t>(blocks / std::max<int64_t>(tiles, 1), 1, std::max<int64_t>(chunks, 1));
    each = chunks / splits;
    longer = chunks % splits;
  }

  BINADE_HD int64_t chunk_rows() const { return int64_t{lines} * held; }
  // Rows of a block.
  __device__ int64_t rows_of(int64_t split) const {
    const bool has_last = split == (longer > 0 ? longer : splits) - 1;
    return (each + (split < longer ? 1 : 0)) * chunk_rows() -
           (has_last ? chunks * chunk_rows() - rows : 0);
  }
  dim3 grid() const { return dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(splits)); }
  dim3 block() const { return dim3(static_cast<unsigned>(packs), static_cast<unsigned>(lines)); }

  __device__ int64_t split() const { return blockIdx.y; }
  // First channel of this thread; at least `channels` if it has none.
  template <int N>
  __device__ int64_t channel() const {
    return (int64_t{blockIdx.x} * packs + threadIdx.x) * N;
  }

  // Calls f(first, count): this thread's rows are first + k * lines for k < count <= held.
  template <class F>
  __device__ void for_each_chunk(F&& f) const {
    for (int64_t chunk = split(); chunk < chunks; chunk += splits) {
      const int64_t first = chunk * chunk_rows() + threadIdx.y;
      if (first >= rows) continue;
      int count = held;
      if (first + int64_t{held - 1} * lines >= rows) {  // without a division, which is slow
        for (count = 1; first + int64_t{count} * lines < rows;) ++count;
      }
      f(first, count);
    }
  }
};

// Parameters of a thread's channels.
template <class C, int N>
struct RowAffine {
  C center[N], scale[N], offset[N];

  __device__ RowAffine(const Operand& mean, const Operand& rstd, const Operand& weight,
                       const Operand& bias, int64_t channel) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      center[i] = load_one<C>(mean, channel + i);
      scale[i] =
          load_one<C>(rstd, channel + i) * (weight ? load_one<C>(weight, channel + i) : C{1});
      offset[i] = bias ? load_one<C>(bias, channel + i) : C{0};
    }
  }
  // One expression for forward and backward, so that both agree on the ReLU's mask.
  __device__ C operator()(C value, int i) const {
    return fma(value - center[i], scale[i], offset[i]);
  }
};

// ---- sums over blocks ----

inline constexpr int merged_channels = 32, merge_lines = 32;

// Sums one number per line of a block of merged_channels x merge_lines, for each channel.
__device__ inline double sum_lines(double value, double (&scratch)[merge_lines][merged_channels]) {
  __syncthreads();
  scratch[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  for (int step = merge_lines / 2; step > 0; step /= 2) {
    if (threadIdx.y < step)
      scratch[threadIdx.y][threadIdx.x] += scratch[threadIdx.y + step][threadIdx.x];
    __syncthreads();
  }
  return scratch[0][threadIdx.x];
}

template <class F>
void launch_merge(F kernel, int64_t channels, auto&&... args) {
  launch(kernel, static_cast<unsigned>(divide_up(channels, merged_channels)),
         dim3(merged_channels, merge_lines), 0, args...);
}

// ---- passes without sums ----

inline constexpr int held_for_apply = 4;
// At 128 registers a thread, as for the kernels below.
inline constexpr int resident_blocks = 2;
using ApplyTiling = RowTiling<held_for_apply, resident_blocks>;

}  // namespace binade::backend::cuda
