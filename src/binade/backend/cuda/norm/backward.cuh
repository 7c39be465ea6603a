#pragma once

#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/backend/cuda/common/dynamic_operand.cuh"
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

// dx = scale * dy * weight + slope * (x - center) + offset, from the sums of g = dy * weight and of
// g * (x - center) over the row.
template <class C>
struct NormLine {
  C slope, offset;

  __device__ NormLine(bool centered, int64_t width, C scale, C plain, C products) {
    const C count = static_cast<C>(width);
    slope = -scale * scale * scale * (products / count);
    offset = centered ? -scale * (plain / count) : C{0};
  }
};

// The sums over a row's threads. A block of one row alternates between two halves of `scratch` (2 x
// 2 x 32), so that one barrier per row is enough: no thread is more than one row ahead.
template <class C>
__device__ inline void team_sums(C& a, C& b, C* scratch, int parity) {
  a = reduce_warp(a, Sum());
  b = reduce_warp(b, Sum());
  if (blockDim.x == warp_size) return;
  const int lane = threadIdx.x % warp_size, warps = blockDim.x / warp_size;
  C* half = scratch + parity * 2 * warp_size;
  if (lane == 0) {
    half[threadIdx.x / warp_size] = a;
    half[warp_size + threadIdx.x / warp_size] = b;
  }
  __syncthreads();
  a = reduce_warp(lane < warps ? half[lane] : C{0}, Sum());
  b = reduce_warp(lane < warps ? half[warp_size + lane] : C{0}, Sum());
}

// The parameters' gradients as sums per block: [blocks][weight, bias][width], or null if no
// parameter needs a gradient.
template <class C>
struct NormPartials {
  C* data = nullptr;
  int64_t width = 0;

  __device__ explicit operator bool() const { return data != nullptr; }
  __device__ C* weight(int64_t block) const { return data + 2 * block * width; }
  __device__ C* bias(int64_t block) const { return weight(block) + width; }

  // Writes the block's sums: those of its teams, added in order in `shared` (2 x width).
  template <int N, int K>
  __device__ void write(C* shared, const C (&dweight)[K][N], const C (&dbias)[K][N]) const {
    for (unsigned team = 0; team < blockDim.y; ++team) {
      if (threadIdx.y == team) {
        const bool last = team + 1 == blockDim.y;
        C* weight_to = last ? weight(blockIdx.x) : shared;
        C* bias_to = last ? bias(blockIdx.x) : shared + width;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const int64_t column = team_column<N>(k);
          if (column >= width) continue;
#pragma unroll
          for (int i = 0; i < N; ++i) {
            weight_to[column + i] = dweight[k][i] + (team > 0 ? shared[column + i] : C{0});
            bias_to[column + i] = dbias[k][i] + (team > 0 ? shared[width + column + i] : C{0});
          }
        }
      }
      __syncthreads();
    }
  }
};

// The blocks' sums in memory and the gradients they belong to. Only of float and double.
template <class C>
class NormParameterSums {
 public:
  NormParameterSums(const Target& dweight, const Target& dbias, int64_t blocks, int64_t width);

  NormPartials<C> partials() const {
    return {.data = sums_.defined() ? static_cast<C*>(sums_.raw_data()) : nullptr, .width = width_};
  }
  // Adds up the blocks' sums, after the kernel that wrote them.
  void finish() const;

 private:
  int64_t blocks_, width_;
  Target dweight_, dbias_;
  Tensor sums_;
};

// norm_backward() of rows of one 16-bit type with f32 statistics; false, with nothing done, for
// other arguments.
bool norm_backward_16bit(const NormBackward& args);

}  // namespace binade::backend::cuda
