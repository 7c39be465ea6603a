#pragma once

#include <string>

#include "binade/backend/cuda/attention_heads.cuh"
#include "binade/base/error.h"

// The parts of the attention kernels: tiles of rows in shared memory, widened to the compute type,
// and the two products made of them. A block is side x side threads; thread (y, x) owns `Rows` rows
// from y * Rows on and, of the columns of a score tile, x, x + side, ... Lanes of the same y are
// one half of a warp: what a row needs of its neighbours needs no barrier of the block.
namespace binade::backend::cuda::own {

inline constexpr int side = 16;
inline constexpr int threads = side * side;
inline constexpr int chunk = 4 * side;  // columns of a result that the lanes of a row hold at once
// Kernels keep to the registers that let as many blocks share a multiprocessor.
template <class C>
inline constexpr int blocks_per_multiprocessor = sizeof(C) <= 4 ? 2 : 1;

__device__ inline int lane_x() { return threadIdx.x % side; }
__device__ inline int lane_y() { return threadIdx.x / side; }

// What a block works on: `Rows` x `Columns` scores a thread, heads of `Chunks` chunks at most.
template <class C, int Rows_, int Columns_, int Chunks_>
struct Tile {
  static constexpr int Rows = Rows_, Columns = Columns_, Chunks = Chunks_;
  static constexpr int rows = Rows * side, columns = Columns * side;
  static constexpr int dim = Chunks * chunk;
  static constexpr int pitch = pitch_of<C>(dim), score_pitch = pitch_of<C>(columns);
  static constexpr int row_elements = rows * pitch, column_elements = columns * pitch;
  static constexpr int score_elements = rows * score_pitch;
};

// The value over the lanes of a row, in each of them.
template <class C, class Op>
__device__ inline C reduce_row(C value, Op op) {
#pragma unroll
  for (int step = side / 2; step > 0; step /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// `Rows` rows of a head from `first` on into a tile.
template <int Rows, int Dim, class T, class C>
__device__ inline void load_rows(const T* head, const Heads<T>& x, int first, int end, int dim,
                                 C* tile) {
  fetch_rows<Rows, Dim, threads>(head, x, first, end, dim, tile);
  wait_copies();
}

// sums[i][j] += row i of `a` (this thread's) times row j of `b` (column j of the scores).
template <class Tile, class C>
__device__ inline void multiply_rows(const C* a, const C* b, int depth,
                                     C (&sums)[Tile::Rows][Tile::Columns]) {
  a += lane_y() * Tile::Rows * Tile::pitch;
  b += lane_x() * Tile::pitch;
#pragma unroll 2
  for (int p = 0; p < depth; p += 4) {
    Pack<C, 4> x[Tile::Rows], y[Tile::Columns];
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) x[i] = load_pack<C, 4>(a + i * Tile::pitch + p);
#pragma unroll
    for (int j = 0; j < Tile::Columns; ++j) y[j] = load_pack<C, 4>(b + j * side * Tile::pitch + p);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
        for (int j = 0; j < Tile::Columns; ++j) sums[i][j] += x[i][n] * y[j][n];
  }
}

// A thread's part of a result: of its rows, 4 columns of each chunk.
template <class Tile, class C>
using Result = C[Tile::Rows][Tile::Chunks][4];

// result[i] += the sum over columns c of the scores, weights[i][c] times row c of `values`.
template <class Tile, class C>
__device__ inline void add_weighted(const C* weights, const C* values, Result<Tile, C>& result) {
  weights += lane_y() * Tile::Rows * Tile::score_pitch;
  values += lane_x() * 4;
#pragma unroll 2
  for (int c = 0; c < Tile::columns; c += 4) {
    Pack<C, 4> w[Tile::Rows];
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i)
      w[i] = load_pack<C, 4>(weights + i * Tile::score_pitch + c);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int k = 0; k < Tile::Chunks; ++k) {
        const auto value = load_pack<C, 4>(values + (c + n) * Tile::pitch + k * chunk);
#pragma unroll
        for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
          for (int m = 0; m < 4; ++m) result[i][k][m] += w[i][n] * value[m];
      }
    }
  }
}

// Where a thread keeps its scores for the other lanes of their rows.
template <class Tile, class C>
__device__ inline void store_scores(const C (&scores)[Tile::Rows][Tile::Columns], C* tile) {
  tile += lane_y() * Tile::Rows * Tile::score_pitch + lane_x();
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::Columns; ++j) tile[i * Tile::score_pitch + j * side] = scores[i][j];
}

// Rounds factor[i] times a thread's part of a result into the rows of a head from `first` on.
template <class Tile, class T, class C>
__device__ inline void store_rows(const Result<Tile, C>& result, const C (&factor)[Tile::Rows],
                                  T* head, const Heads<T>& y, int first, int end, int dim) {
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int row = first + lane_y() * Tile::Rows + i;
    if (row >= end) return;
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

// Calls f with the number of chunks that hold `dim` elements.
template <class F>
void with_chunks(int64_t dim, F&& f) {
  if (dim <= chunk) return f(std::integral_constant<int, 1>{});
  if (dim <= 2 * chunk) return f(std::integral_constant<int, 2>{});
  if (dim <= 4 * chunk) return f(std::integral_constant<int, 4>{});
  fail("attention", {.argument = "dim",
                     .expected = "at most " + std::to_string(4 * chunk) + " elements a head",
                     .found = std::to_string(dim)});
}

}  // namespace binade::backend::cuda::own
