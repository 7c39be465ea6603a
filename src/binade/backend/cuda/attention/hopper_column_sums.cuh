#pragma once

#include <cuda_runtime.h>

// Sums of columns of gradients while the warps that computed them hold them.
namespace binade::backend::cuda::native {

// Lanes that are `Apart` share the work: each keeps half of its 2 * N elements and adds to them
// those of the other lane.
template <int Apart, int N>
__device__ inline void fold(float (&x)[16]) {
  const bool upper = (threadIdx.x & Apart) != 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float given = upper ? x[i] : x[i + N], kept = upper ? x[i + N] : x[i];
    x[i] = kept + __shfl_xor_sync(~0u, given, Apart);
  }
}

// Writes the sums of 64 columns over the 16 rows that a warp holds as matmuls leave them, times
// `scale`.
__device__ inline void store_column_sums(const float (&x)[32], float scale, float* to) {
  float sums[16];  // of two rows
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = x[i / 2 * 4 + i % 2] + x[i / 2 * 4 + i % 2 + 2];
  fold<16, 8>(sums);
  fold<8, 4>(sums);
  fold<4, 2>(sums);
  reinterpret_cast<float2*>(to)[threadIdx.x % 32] = make_float2(sums[0] * scale, sums[1] * scale);
}

}  // namespace binade::backend::cuda::native
