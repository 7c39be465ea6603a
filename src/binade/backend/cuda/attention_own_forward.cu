#include <cmath>
#include <limits>
#include <type_traits>

#include "binade/backend/cuda/attention_own.h"
#include "binade/backend/cuda/attention_tf32.h"
#include "binade/backend/cuda/attention_tile.cuh"
#include "binade/backend/cuda/reduce.cuh"

namespace binade::backend::cuda::own {
namespace {

// Tiles as large as 99 KiB of shared memory and 256 threads' registers allow.
template <class C, int Chunks>
struct ForwardTile;
template <>
struct ForwardTile<float, 1> : Tile<float, 4, 4, 1> {};
template <>
struct ForwardTile<float, 2> : Tile<float, 4, 4, 2> {};
template <>
struct ForwardTile<float, 4> : Tile<float, 2, 2, 4> {};
template <>
struct ForwardTile<double, 1> : Tile<double, 2, 2, 1> {};
template <>
struct ForwardTile<double, 2> : Tile<double, 2, 2, 2> {};
template <>
struct ForwardTile<double, 4> : Tile<double, 1, 1, 4> {};

// The running softmax of a thread's rows: maxima are a row's, sums are of the lane's own columns.
template <class Tile, class C>
struct OnlineSoftmax {
  C maximum[Tile::Rows], sum[Tile::Rows];

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) {
      maximum[i] = -std::numeric_limits<C>::infinity();
      sum[i] = 0;
    }
  }

  // Takes products of a tile that starts at `key`, leaves exp(score - maximum) in their place (0
  // where row i does not see the key, visible[i] and later) and brings `result` to the new maximum.
  __device__ void update(int key, const int (&visible)[Tile::Rows], C scale,
                         C (&scores)[Tile::Rows][Tile::Columns], Result<Tile, C>& result) {
    constexpr C lowest = -std::numeric_limits<C>::infinity();
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) {
      C best = maximum[i];
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) {
        const bool hidden = key + lane_x() + j * side >= visible[i];
        scores[i][j] = hidden ? lowest : scores[i][j] * scale;
        best = scores[i][j] > best ? scores[i][j] : best;
      }
      best = reduce_row(best, Max{});
      const C shift = best == lowest ? C(0) : best;
      const C correction = exponential(maximum[i] - shift);
      maximum[i] = best;
      sum[i] *= correction;
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) {
        scores[i][j] = exponential(scores[i][j] - shift);
        sum[i] += scores[i][j];
      }
#pragma unroll
      for (int k = 0; k < Tile::Chunks; ++k)
#pragma unroll
        for (int m = 0; m < 4; ++m) result[i][k][m] *= correction;
    }
  }
};

// One block attends one tile of queries of one head.
template <class T, class Tile, class C = Compute<T>>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor<C>)
    forward_kernel(Heads<T> q, Heads<T> k, Heads<T> v, Heads<T> out, C* lse, Sizes sizes, C scale) {
  C* const query_tile = shared_memory<C>();
  C* const key_tile = query_tile + Tile::row_elements;  // then the values' in its place
  C* const weights = key_tile + Tile::column_elements;

  // Late queries see more keys: their blocks start first.
  const int tiles = ceil_div(sizes.queries, Tile::rows);
  const int64_t item = blockIdx.x / tiles;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * Tile::rows;
  const int64_t b = item / sizes.heads;
  const int h = static_cast<int>(item % sizes.heads), kv = h / sizes.group();

  load_rows<Tile::rows, Tile::dim>(q.at(b, h), q, first, sizes.queries, sizes.dim, query_tile);
  int visible[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i)
    visible[i] = sizes.visible_keys(first + lane_y() * Tile::Rows + i);
  OnlineSoftmax<Tile, C> softmax;
  Result<Tile, C> result = {};
  const int last = min(first + Tile::rows, sizes.queries) - 1;
  const int keys = sizes.visible_keys(last);
  for (int key = 0; key < keys; key += Tile::columns) {
    __syncthreads();
    load_rows<Tile::columns, Tile::dim>(k.at(b, kv), k, key, sizes.keys, sizes.dim, key_tile);
    __syncthreads();
    C scores[Tile::Rows][Tile::Columns] = {};
    multiply_rows<Tile>(query_tile, key_tile, sizes.depth(), scores);
    softmax.update(key, visible, scale, scores, result);
    store_scores<Tile>(scores, weights);
    __syncthreads();
    load_rows<Tile::columns, Tile::dim>(v.at(b, kv), v, key, sizes.keys, sizes.dim, key_tile);
    __syncthreads();
    add_weighted<Tile>(weights, key_tile, result);
  }

  C inverse[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const C sum = reduce_row(softmax.sum[i], Sum{});
    inverse[i] = sum == C(0) ? C(0) : C(1) / sum;
    const int row = first + lane_y() * Tile::Rows + i;
    if (lane_x() == 0 && row < sizes.queries) {
      // Without a key to see the maximum is -inf, and the sum 0 says so too.
      lse[item * sizes.queries + row] =
          sum == C(0) ? -std::numeric_limits<C>::infinity() : softmax.maximum[i] + log(sum);
    }
  }
  store_rows<Tile>(result, inverse, out.at(b, h), out, first, sizes.queries, sizes.dim);
}

}  // namespace

void attention_forward(const TensorView& q, const TensorView& k, const TensorView& v, double scale,
                       bool causal, bool tf32, const TensorView& out, const TensorView& lse) {
  if (tf32 && attention_forward_tf32(q, k, v, scale, causal, out, lse)) return;
  const Sizes sizes(q, k, causal);
  dispatch_floating("attention", q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    with_chunks(sizes.dim, [&](auto chunks) {
      using Tile = ForwardTile<C, decltype(chunks)::value>;
      const int64_t blocks =
          sizes.batch * sizes.heads * ceil_div<int64_t>(sizes.queries, Tile::rows);
      constexpr size_t bytes =
          sizeof(C) * (Tile::row_elements + Tile::column_elements + Tile::score_elements);
      launch(forward_kernel<T, Tile>, static_cast<unsigned>(blocks), threads, bytes, Heads<T>(q),
             Heads<T>(k), Heads<T>(v), Heads<T>(out), lse.as<C>(), sizes, scale);
    });
  });
}

}  // namespace binade::backend::cuda::own
