#pragma once

#include <cuda_runtime.h>

// Asynchronous copies from global to shared memory, which need no registers. GPUs before compute
// capability 8.0 copy at once.
namespace binade::backend::cuda {

// Starts a copy of 16 bytes between addresses that are multiples of 16; writes zeros unless
// `inside`.
__device__ inline void copy_async(void* shared, const void* global, bool inside) {
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global),
               "r"(inside ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(shared) = inside ? *static_cast<const uint4*>(global) : uint4{};
#endif
}

// Makes a group of the copies this thread started since its last group.
__device__ inline void end_copy_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

// Waits for this thread's groups of copies except the last N.
template <int N>
__device__ inline void wait_copy_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
#endif
}

// Waits for the copies this thread started.
__device__ inline void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;\n" ::: "memory");
#endif
}

}  // namespace binade::backend::cuda
