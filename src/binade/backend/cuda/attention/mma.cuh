#pragma once

#include <cstdint>

#include "binade/backend/cuda/attention/common.cuh"
#include "binade/backend/cuda/common/mma.cuh"

// Building blocks of the TF32 attention kernels. A block is four warps; a warp owns 16 * M rows of
// the block's tile and all columns of their results, so that softmaxes and the second matmul stay
// in its registers. In multiply_add's layout of 16 rows and 8 columns, a lane (g = lane / 4, t =
// lane % 4) holds rows g and g + 8 and columns 2 t and 2 t + 1.
namespace binade::backend::cuda::native {

// 16 * M_ rows per warp, N_ * 8 columns of scores, heads of up to Dim_ elements.
template <int M_, int N_, int Dim_>
struct MmaTile {
  static constexpr int M = M_, N = N_, dim = Dim_, D = dim / 8;
  static constexpr int threads = 4 * warp_size;
  static constexpr int warp_rows = 16 * M, rows = 4 * warp_rows, columns = 8 * N;
  // 4 mod 32: the loads below have no bank conflicts.
  static constexpr int pitch = pitch_of<float>(dim);
  static constexpr int row_elements = rows * pitch, column_elements = columns * pitch;
  static_assert(N % 2 == 0 && pitch % 32 == 4);

  using Scores = float[M][N][4];
  using Result = float[M][D][4];
};

__device__ inline int lane_group() { return threadIdx.x % warp_size / 4; }
__device__ inline int lane_pair() { return threadIdx.x % 4 * 2; }

// The row of the block's tile that holds elements 2 * half and 2 * half + 1 of part m.
template <class Tile>
__device__ inline int row_of(int m, int half) {
  return warp_row<Tile>() + m * 16 + half * 8 + lane_group();
}

// Whether the kernels support the GPU and such tensors: f32 rows that can be read 16 bytes at a
// time.
inline bool tf32_supports(std::initializer_list<const TensorView*> tensors) {
  if (properties().capability() < 80) return false;
  for (const TensorView* x : tensors)
    if (x->dtype != DType::f32 || x->shape[3] > 128 || !Heads<float>(*x).packed) return false;
  return true;
}

template <class Tile, int Rows>
__device__ inline void fetch(const Heads<float>& x, const float* head, RowRange range,
                             float* tile) {
  fetch_rows<Rows, Tile::dim, Tile::threads>(x, head, range, tile);
}

// Waits for this thread's copies into a tile of `Rows` rows, and rounds them to TF32.
template <class Tile, int Rows>
__device__ inline void receive(float* tile) {
  constexpr int packs = Tile::dim / 4;
  wait_copies();
#pragma unroll 4
  for (int i = threadIdx.x; i < Rows * packs; i += Tile::threads) {
    float* at = tile + i / packs * Tile::pitch + i % packs * 4;
    auto pack = load_pack<float, 4>(at);
#pragma unroll
    for (int n = 0; n < 4; ++n) pack[n] = __uint_as_float(to_tf32(pack[n]));
    store_pack(at, pack);
  }
}

// sums += the warp's rows of `a` times the rows of `b`.
template <class Tile>
__device__ inline void multiply_rows(const float* a, const float* b, typename Tile::Scores& sums) {
  const int lane = threadIdx.x % warp_size;
  a += (warp_row<Tile>() + lane % 16) * Tile::pitch + lane / 16 * 4;
  b += (lane / 16 * 8 + lane % 8) * Tile::pitch + lane / 8 % 2 * 4;
#pragma unroll 2
  for (int p = 0; p < Tile::dim; p += 8) {
    uint32_t x[Tile::M][4];
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) load_matrices(a + m * 16 * Tile::pitch + p, x[m]);
#pragma unroll
    for (int n = 0; n < Tile::N; n += 2) {
      uint32_t y[4];
      load_matrices(b + n * 8 * Tile::pitch + p, y);
#pragma unroll
      for (int m = 0; m < Tile::M; ++m) {
        multiply_add(sums[m][n], x[m], y[0], y[1]);
        multiply_add(sums[m][n + 1], x[m], y[2], y[3]);
      }
    }
  }
}

// result += the weights times the rows of `values`, one row for each column of the weights. The
// order of a sum's terms is free, so columns 2 t and 2 t + 1, which a lane holds, take the
// positions t and t + 4 of multiply_add.
template <class Tile>
__device__ inline void add_weighted(const typename Tile::Scores& weights, const float* values,
                                    typename Tile::Result& result) {
  values += lane_pair() * Tile::pitch + lane_group();
#pragma unroll
  for (int n = 0; n < Tile::N; ++n) {
    uint32_t w[Tile::M][4];
#pragma unroll
    for (int m = 0; m < Tile::M; ++m) {
      const auto& c = weights[m][n];
      w[m][0] = to_tf32(c[0]);
      w[m][1] = to_tf32(c[2]);
      w[m][2] = to_tf32(c[1]);
      w[m][3] = to_tf32(c[3]);
    }
    const float* row = values + n * 8 * Tile::pitch;
#pragma unroll
    for (int d = 0; d < Tile::D; ++d) {
      const uint32_t y0 = __float_as_uint(row[d * 8]),
                     y1 = __float_as_uint(row[Tile::pitch + d * 8]);
#pragma unroll
      for (int m = 0; m < Tile::M; ++m) multiply_add(result[m][d], w[m], y0, y1);
    }
  }
}

// Reduces over the lanes of a row; every lane gets the result.
template <class Op>
__device__ inline float reduce_row(float value, Op op) {
  value = op(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return op(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

// Writes factor[m][half] times a result to the rows of a head.
template <class Tile>
__device__ inline void store_rows(const typename Tile::Result& result,
                                  const float (&factor)[Tile::M][2], const Heads<float>& y,
                                  float* head, RowRange range) {
  const auto [first, end, dim] = range;
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + row_of<Tile>(m, half);
      if (row >= end) continue;
      float* to = head + row * y.row + lane_pair();
#pragma unroll
      for (int d = 0; d < Tile::D; ++d) {
        if (d * 8 + lane_pair() >= dim) break;
        const auto& c = result[m][d];
        store_pack(to + d * 8, Pack<float, 2>{c[2 * half] * factor[m][half],
                                              c[2 * half + 1] * factor[m][half]});
      }
    }
}

}  // namespace binade::backend::cuda::native
