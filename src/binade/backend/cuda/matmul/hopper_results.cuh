#pragma once

#include "binade/backend/cuda/common/fast_exp2.cuh"
#include "binade/backend/cuda/matmul/hopper_pipeline.cuh"

// Tiles of results in shared memory, as processing warps read them: a lane has eight columns.
namespace binade::backend::cuda::fused {

// ---- Eight elements of 16 bits

template <class T>
__device__ inline void widen(const uint4& pack, float (&x)[8]) {
  const uint32_t pairs[] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = hopper::widen_pair<T>(pairs[i]);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

template <class T>
__device__ inline uint4 narrow(const float (&x)[8]) {
  return {narrow_pair<T>(x[0], x[1]), narrow_pair<T>(x[2], x[3]), narrow_pair<T>(x[4], x[5]),
          narrow_pair<T>(x[6], x[7])};
}

template <class T>
__device__ inline uint4 load(const T* from) {
  return *reinterpret_cast<const uint4*>(from);
}
template <class T>
__device__ inline void store(T* to, const uint4& pack) {
  *reinterpret_cast<uint4*>(to) = pack;
}
__device__ inline uint4 load_shared(uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}

// ---- Functions, with relative errors of about 2^-20, which vanish when results are rounded

// 1 / (1 + 2^x)
__device__ inline float inverse_of_one_plus_exp2(float x) {
  float y = fast_exp2(x) + 1;
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(y));
  return y;
}

// The smaller one, or NaN.
__device__ inline float min_or_nan(float x, float y) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  return x;
}

// ---- Warps

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_size; }

// This lane's eight elements of a row of the tile.
__device__ inline uint4 load_result(uint32_t shared, int row) {
  return load_shared(shared + Tile::results_at + row * Tile::result_row_bytes +
                     (lane() ^ row % 8) * 16);
}

__device__ inline void arrive_as_warp(uint32_t barrier) {
  __syncwarp();
  if (lane() == 0) hopper::arrive(barrier);
}

}  // namespace binade::backend::cuda::fused
