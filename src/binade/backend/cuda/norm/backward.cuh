#pragma once

#include <array>

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
#include "binade/backend/cuda/common/pack.cuh"
#include "binade/backend/norm.h"

// Parts of the kernels for norm backward. A row belongs to a team of threads along x: a warp, of
// which a block may hold several along y, or the whole block. Thread t of a team has the row's
// packs t, t + team, t + 2 team, ...
namespace binade::backend::cuda {

// The first column of this thread's k-th pack of n elements.
template <int N>
__device__ inline int64_t team_column(int k) {
  return static_cast<int64_t>(k * blockDim.x + threadIdx.x) * N;
}

// dx = scale * dy * weight + slope * (x - center) + offset, from the sums over the row of
// g * (x - center), where g = dy * weight, and, for a layer norm, of g.
template <class C>
struct NormLine {
  C slope, offset = 0;

  template <int M>
  __device__ NormLine(bool centered, int64_t width, C scale, const C (&sums)[M]) {
    const C count = static_cast<C>(width);
    slope = -scale * scale * scale * (sums[0] / count);
    if constexpr (M > 1) offset = centered ? -scale * (sums[1] / count) : C{0};
  }
};

// M sums over a row's threads. A block of one row alternates between two halves of `scratch`, so
// that one barrier per row is enough: no thread is more than one row ahead.
template <class C, int M>
__device__ inline void team_sums(C (&sums)[M], C (&scratch)[2][M][warp_size], int parity) {
#pragma unroll
  for (int m = 0; m < M; ++m) sums[m] = reduce_warp(sums[m], Sum());
  if (blockDim.x == warp_size) return;
  const int lane = threadIdx.x % warp_size, warps = blockDim.x / warp_size;
  if (lane == 0) {
#pragma unroll
    for (int m = 0; m < M; ++m) scratch[parity][m][threadIdx.x / warp_size] = sums[m];
  }
  __syncthreads();
#pragma unroll
  for (int m = 0; m < M; ++m)
    sums[m] = reduce_warp(lane < warps ? scratch[parity][m][lane] : C{0}, Sum());
}

// The sums over rows per block: [blocks][weight, bias, perhaps dx][width], or null if none is
// needed.
template <class C>
struct NormPartials {
  C* data = nullptr;
  int64_t width = 0;
  int kinds = 2;

  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ C* of(int64_t block, int kind) const { return data + (kinds * block + kind) * width; }

  // Writes one kind of the block's sums: those of its teams, added in order in `shared` (width,
  // aligned to 16 bytes). In units of 16 bytes: a thread's columns lie side by side, so that single
  // stores of a warp would touch 32 sectors each, which took a sixth of the kernel's time.
  template <int N, int K>
  __device__ void write(int kind, C* shared, const C (&sums)[K][N]) const {
    constexpr int unit = N % 4 == 0 ? 4 : 1;
    for (unsigned team = 0; team < blockDim.y; ++team) {
      if (threadIdx.y == team) {
        C* to = team + 1 == blockDim.y ? of(blockIdx.x, kind) : shared;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const int64_t column = team_column<N>(k);
          if (column >= width) continue;
#pragma unroll
          for (int i = 0; i < N; i += unit) {
            Pack<C, unit> total = {};
            if (team > 0) total = load_pack<C, unit>(shared + column + i);
#pragma unroll
            for (int j = 0; j < unit; ++j) total[j] = sums[k][i + j] + total[j];
            store_pack(to + column + i, total);
          }
        }
      }
      __syncthreads();
    }
  }
};

enum NormSum { weight_sum, bias_sum, dx_sum };

// The targets of the sums over all rows, by NormSum.
using NormSumTargets = std::array<Target, 3>;

// The blocks' sums in memory. Only of float and double.
template <class C>
class NormSums {
 public:
  NormSums(const NormSumTargets& targets, int64_t blocks, int64_t width);

  NormPartials<C> partials() const;
  // Adds up the blocks' sums, after the kernel that wrote them.
  void finish() const;

 private:
  NormSumTargets targets_;
  int64_t blocks_, width_;
  Tensor sums_;
};

// norm_backward() of rows of one 16-bit type with f32 statistics; false, with nothing done, for
// other arguments.
bool norm_backward_16bit(const NormBackward& args);

}  // namespace binade::backend::cuda
