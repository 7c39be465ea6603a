#pragma once

#include "binade/backend/cuda/common/hopper.cuh"

// Rows of results as matmuls of a warpgroup leave them in registers.
namespace binade::backend::cuda::native {

// 4 x 4 transpose among the four lanes that hold a row of a matmul's result: from 2 columns of four
// groups of 8 to all 8 columns of one.
__device__ inline void transpose_quad(uint32_t (&x)[4]) {
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x / 2 % 2 != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t other = __shfl_xor_sync(~0u, odd ? x[i] : x[i + 1], 1);
    x[i] = odd ? other : x[i];
    x[i + 1] = odd ? x[i + 1] : other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t other = __shfl_xor_sync(~0u, upper ? x[i] : x[i + 2], 2);
    x[i] = upper ? other : x[i];
    x[i + 2] = upper ? x[i + 2] : other;
  }
}

// Stores the thread's two rows, 8 apart, each times its factor. `at`: where the first one begins.
// `rows`: how many rows there are from it on.
template <class T, int N>
__device__ inline void store_rows(const float (&x)[N], T* at, int64_t row_stride,
                                  const float (&factors)[2], int lane, int rows = 16) {
  at += lane % 4 * 8;
#pragma unroll
  for (int i = 0; i < N; i += 16) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t r[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int e = i + 4 * j + 2 * half;
        r[j] = hopper::narrow_pair<T>(x[e] * factors[half], x[e + 1] * factors[half]);
      }
      transpose_quad(r);
      if (half * 8 < rows)
        *reinterpret_cast<uint4*>(at + half * 8 * row_stride + 2 * i) =
            make_uint4(r[0], r[1], r[2], r[3]);
    }
  }
}

// Whether all elements that the warp holds are finite.
template <int N>
__device__ inline bool warp_is_finite(const float (&x)[N]) {
  float zero = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) zero = fmaf(x[i], 0.0f, zero);
  return __all_sync(~0u, zero == 0);
}

}  // namespace binade::backend::cuda::native
