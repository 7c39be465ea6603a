#pragma once

#include <cuda_runtime.h>

// Copies from global to shared memory that need no registers and that a thread need not wait for.
namespace binade::backend::cuda {

// Starts a copy of 16 bytes, both addresses multiples of 16; zeros are written where not `inside`.
__device__ inline void copy_async(void* shared, const void* global, bool inside) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global),
               "r"(inside ? 16 : 0)
               : "memory");
}

// Until the thread's own copies have arrived.
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

}  // namespace binade::backend::cuda
