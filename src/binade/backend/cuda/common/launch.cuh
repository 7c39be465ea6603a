#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/backend/cuda/device.h"
#include "binade/base/division.h"
#include "binade/base/host_device.h"

// Kernel launches.
namespace binade::backend::cuda {

inline constexpr int warp_size = 32;

// divide_up() in the operands' own type: a 64-bit division is slow on a GPU.
template <class T>
BINADE_HD constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// Launches a kernel on the active device's stream, unless the grid is empty.
template <class... Parameters, class... Args>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  // 48 KiB need no permission; 1 KiB of them may be static.
  if (shared_bytes > 47 * 1024) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
  }
  kernel<<<grid, block, shared_bytes, stream()>>>(static_cast<Parameters>(args)...);
  check(cudaGetLastError(), "kernel launch");
}

// Blocks of `threads` for a grid-stride loop over `count` items: no more than fill the GPU.
inline unsigned grid_for(int64_t count, int threads, int per_multiprocessor = 8) {
  const int64_t needed = divide_up(count, threads);
  const int64_t filling = int64_t{properties().multiprocessors} * per_multiprocessor;
  return static_cast<unsigned>(needed < filling ? needed : filling);
}

// A thread's first item in a grid-stride loop, and its step.
__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t item_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace binade::backend::cuda
