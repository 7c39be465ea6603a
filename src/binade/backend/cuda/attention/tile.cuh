#pragma once

#include <string>

#include "binade/backend/cuda/attention/common.cuh"
#include "binade/base/error.h"

// Building blocks of the attention kernels that multiply in f32 (f64): tiles of rows in shared
// memory and their two matmuls. A block is four warps of 4 x 8 lanes; lane (y, x) of a warp owns
// every fourth of its rows from y on and every eighth column of a score tile from x on. The lanes
// of a row exchange values within their warp, without a barrier of the block.
namespace binade::backend::cuda::native {

inline constexpr int lanes_x = 8, lanes_y = 4;
inline constexpr int threads = 4 * warp_size;
// Columns of a result that the lanes of a row hold at once: 4, or 16 bytes of f32, per lane.
inline constexpr int chunk = 4 * lanes_x;

// Interleaves the bits of x and y in the lane number, so that half a warp reads 16 bytes per lane
// from either operand in one access.
__device__ inline int lane_x() { return (threadIdx.x & 1) | (threadIdx.x >> 1 & 6); }
__device__ inline int lane_y() { return (threadIdx.x >> 1 & 1) | (threadIdx.x >> 3 & 2); }

// The tile of a block: `Rows` x `Columns` scores per thread, heads of at most `Chunks` chunks.
template <class C, int Rows_, int Columns_, int Chunks_>
struct Tile {
  static constexpr int Rows = Rows_, Columns = Columns_, Chunks = Chunks_;
  static constexpr int warp_rows = Rows * lanes_y, rows = 4 * warp_rows;
  static constexpr int columns = Columns * lanes_x, dim = Chunks * chunk;
  static constexpr int pitch = pitch_of<C>(dim);
  static constexpr int row_elements = rows * pitch, column_elements = columns * pitch;
  // Columns of weights that pass through shared memory at a time.
  static constexpr int Part = Columns < 4 ? Columns : 4, part = Part * lanes_x;
  static constexpr int weight_pitch = part + lanes_x, weight_elements = rows * weight_pitch;

  using Scores = C[Rows][Columns];
  using Result = C[Rows][Chunks][4];  // 4 columns of each chunk of a thread's rows

  // The row of the block's tile that is a thread's row i.
  static __device__ int row_of(int i) { return warp_row<Tile>() + i * lanes_y + lane_y(); }
};

// Reduces over the lanes of a row; every lane gets the result.
template <class C, class Op>
__device__ inline C reduce_row(C value, Op op) {
  for (const int step : {1, 4, 8}) value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

template <class Tile, int Rows, class T, class C>
__device__ inline void fetch(const Heads<T>& x, const T* head, RowRange range, C* tile) {
  fetch_rows<Rows, Tile::dim, threads>(x, head, range, tile);
}

// sums[i][j] += row i of `a` (this thread's) times row j of `b` (column j of the scores).
template <class Tile, class C>
__device__ inline void multiply_rows(const C* a, const C* b, int depth,
                                     C (&sums)[Tile::Rows][Tile::Columns]) {
  a += Tile::row_of(0) * Tile::pitch;
  b += lane_x() * Tile::pitch;
#pragma unroll 2
  for (int p = 0; p < depth; p += 4) {
    Pack<C, 4> x[Tile::Rows];
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) x[i] = load_pack<C, 4>(a + i * lanes_y * Tile::pitch + p);
#pragma unroll
    for (int j = 0; j < Tile::Columns; ++j) {
      const auto y = load_pack<C, 4>(b + j * lanes_x * Tile::pitch + p);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int i = 0; i < Tile::Rows; ++i) sums[i][j] += x[i][n] * y[n];
    }
  }
}

// result[i] += the sum over columns c of the scores, scores[i][c] times row c of `values`. The
// other lanes of a row see its scores through `weights`, which only this warp touches.
template <class Tile, class C>
__device__ inline void add_weighted(const C (&scores)[Tile::Rows][Tile::Columns], C* weights,
                                    const C* values, C (&result)[Tile::Rows][Tile::Chunks][4]) {
  weights += Tile::row_of(0) * Tile::weight_pitch;
  values += lane_x() * 4;
#pragma unroll
  for (int first = 0; first < Tile::Columns; first += Tile::Part) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::Part; ++j)
        weights[i * lanes_y * Tile::weight_pitch + lane_x() + j * lanes_x] = scores[i][first + j];
    __syncwarp();
    const C* const rows = values + first * lanes_x * Tile::pitch;
#pragma unroll 2
    for (int c = 0; c < Tile::part; c += 4) {
      Pack<C, 4> w[Tile::Rows];
#pragma unroll
      for (int i = 0; i < Tile::Rows; ++i)
        w[i] = load_pack<C, 4>(weights + i * lanes_y * Tile::weight_pitch + c);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int k = 0; k < Tile::Chunks; ++k) {
          const auto value = load_pack<C, 4>(rows + (c + n) * Tile::pitch + k * chunk);
#pragma unroll
          for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
            for (int m = 0; m < 4; ++m) result[i][k][m] += w[i][n] * value[m];
        }
    }
  }
}

// Writes factor[i] times a thread's part of a result, rounded, to the rows of a head.
template <class Tile, class T, class C>
__device__ inline void store_rows(const C (&result)[Tile::Rows][Tile::Chunks][4],
                                  const C (&factor)[Tile::Rows], const Heads<T>& y, T* head,
                                  RowRange range) {
  const auto [first, end, dim] = range;
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int row = first + Tile::row_of(i);
    if (row >= end) continue;
#pragma unroll
    for (int k = 0; k < Tile::Chunks; ++k) {
      const int column = k * chunk + lane_x() * 4;
      Pack<T, 4> narrow;
#pragma unroll
      for (int m = 0; m < 4; ++m) narrow[m] = cast<T>(result[i][k][m] * factor[i]);
      T* to = head + row * y.row + column;
      if (y.packed) {
        if (column < dim) store_pack(to, narrow);
      } else {
#pragma unroll
        for (int m = 0; m < 4; ++m)
          if (column + m < dim) to[m] = narrow[m];
      }
    }
  }
}

// Calls f with the number of chunks, 2, 4 or 8, that hold `dim` elements.
template <class F>
void with_chunks(int64_t dim, F&& f) {
  if (dim <= 2 * chunk) return f(std::integral_constant<int, 2>{});
  if (dim <= 4 * chunk) return f(std::integral_constant<int, 4>{});
  if (dim <= 8 * chunk) return f(std::integral_constant<int, 8>{});
  fail("attention", {.argument = "dim",
                     .expected = "at most " + std::to_string(8 * chunk) + " elements a head",
                     .found = std::to_string(dim)});
}

}  // namespace binade::backend::cuda::native
