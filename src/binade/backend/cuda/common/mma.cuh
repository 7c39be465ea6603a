#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Products of small matrices by a warp, with TF32 operands and f32 sums. For GPUs of compute
// capability 8.0 and up: the host does not start kernels with them on others.
namespace binade::backend::cuda {

// x rounded to TF32: to nearest, ties away from zero.
__device__ inline uint32_t to_tf32(float x) {
#if __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(x));
  return bits;
#else
  __trap();
  return 0;
#endif
}

// Four matrices of 8 rows of 4 numbers; lane l gives the address of row l % 8 of matrix l / 8 in
// shared memory (a multiple of 16) and receives element l % 4 of row l / 4 of each.
__device__ inline void load_matrices(const float* row, uint32_t (&values)[4]) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(from));
}

// c [16, 8] += a [16, 8] b [8, 8]. With g = lane / 4 and t = lane % 4, a lane holds
//   a: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
//   b: (t, g), (t + 4, g)
//   c: (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

}  // namespace binade::backend::cuda
