#pragma once

#include <cuda_runtime.h>

#include "binade/backend/cuda/common/launch.cuh"

// Sums and maxima over a warp or a block, in an order that depends only on the block's size.
namespace binade::backend::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// NaN if either is.
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};

// The value over all lanes of the warp, in every lane.
template <class T, class Op>
__device__ inline T reduce_warp(T value, Op op) {
#pragma unroll
  for (int step = warp_size / 2; step > 0; step /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// The value over all threads of a one-dimensional block (a multiple of 32, at most 1024), in every
// thread. `scratch` holds 32 of T in shared memory; consecutive calls may use the same one.
template <class T, class Op>
__device__ inline T reduce_block(T value, Op op, T identity, T* scratch) {
  const int lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const int warps = blockDim.x / warp_size;
  value = reduce_warp(value, op);
  __syncthreads();
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  return reduce_warp(lane < warps ? scratch[lane] : identity, op);
}

}  // namespace binade::backend::cuda
