#include <cmath>
#include <limits>

#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/attention/tf32.h"
#include "binade/backend/cuda/attention/tile.cuh"
#include "binade/backend/cuda/common/block_reduce.cuh"

namespace binade::backend::cuda::own {
namespace {

// Tiles as large as 99 KiB of shared memory and two blocks' registers allow.
template <class C, int Chunks>
struct ForwardTile;
template <>
struct ForwardTile<float, 2> : Tile<float, 8, 8, 2> {};
template <>
struct ForwardTile<float, 4> : Tile<float, 4, 4, 4> {};
template <>
struct ForwardTile<float, 8> : Tile<float, 2, 2, 8> {};
template <>
struct ForwardTile<double, 2> : Tile<double, 4, 4, 2> {};
template <>
struct ForwardTile<double, 4> : Tile<double, 2, 2, 4> {};
template <>
struct ForwardTile<double, 8> : Tile<double, 1, 1, 8> {};

// The running softmax of a thread's rows: maxima are a row's, sums are of the lane's own columns.
template <class Tile, class C>
struct OnlineSoftmax {
  static constexpr C lowest = -std::numeric_limits<C>::infinity();
  C maximum[Tile::Rows], sum[Tile::Rows];

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) {
      maximum[i] = lowest;
      sum[i] = 0;
    }
  }

  // Takes scores, leaves exp(score - maximum) in their place and brings `result` to the new
  // maximum.
  __device__ void update(typename Tile::Scores& scores, typename Tile::Result& result) {
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) {
      C best = maximum[i];
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) best = scores[i][j] > best ? scores[i][j] : best;
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

// Multiplies products by `scale`; they become -inf from the key on that row `first` + i does not
// see.
template <class Tile, class C>
__device__ inline void scale_scores(const Sizes& sizes, C scale, int first, int key, bool whole,
                                    C (&scores)[Tile::Rows][Tile::Columns]) {
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int visible = whole ? sizes.keys : sizes.visible_keys(first + Tile::row_of(i));
#pragma unroll
    for (int j = 0; j < Tile::Columns; ++j) {
      const bool hidden = key + lane_x() + j * lanes_x >= visible;
      scores[i][j] = hidden ? OnlineSoftmax<Tile, C>::lowest : scores[i][j] * scale;
    }
  }
}

// One block attends one tile of queries of one head. While a product is made of keys, their values
// arrive, and the other way round.
template <class T, class Tile, class C = Compute<T>>
__global__ void __launch_bounds__(threads, 2)
    forward_kernel(Heads<T> q, Heads<T> k, Heads<T> v, Heads<T> out, C* lse, Sizes sizes, C scale) {
  C* const query_tile = shared_memory<C>();
  C* const key_tile = query_tile + Tile::row_elements;
  C* const value_tile = key_tile + Tile::column_elements;
  C* const weights = value_tile + Tile::column_elements;

  // The longest tiles of all heads start first: the last to end are short ones.
  const int64_t items = sizes.batch * sizes.heads;
  const auto block =
      QueryTile::at<Tile::rows>(sizes, static_cast<int>(blockIdx.x / items), blockIdx.x % items);
  const T* const keys = k.at(block.b, block.kv);
  const T* const values = v.at(block.b, block.kv);
  const RowMask<Tile> mask(sizes, block.first);
  fetch<Tile, Tile::rows>(q, q.at(block.b, block.h), block.first, sizes.queries, sizes.dim,
                          query_tile);
  fetch<Tile, Tile::columns>(k, keys, 0, sizes.keys, sizes.dim, key_tile);
  OnlineSoftmax<Tile, C> softmax;
  typename Tile::Result result = {};
  for (int key = 0; key < block.keys; key += Tile::columns) {
    const bool seen = key < mask.keys;
    typename Tile::Scores scores = {};
    wait_copies();
    __syncthreads();  // the keys are there, and the values before have been read
    fetch<Tile, Tile::columns>(v, values, key, sizes.keys, sizes.dim, value_tile);
    if (seen) {
      multiply_rows<Tile>(query_tile, key_tile, sizes.depth(), scores);
      scale_scores<Tile>(sizes, scale, block.first, key, key + Tile::columns <= mask.keys_of_all,
                         scores);
      softmax.update(scores, result);
    }
    wait_copies();
    __syncthreads();  // the values are there, and the keys have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(k, keys, key + Tile::columns, sizes.keys, sizes.dim, key_tile);
    if (seen) add_weighted<Tile>(scores, weights, value_tile, result);
  }

  C inverse[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const C sum = reduce_row(softmax.sum[i], Sum{});
    inverse[i] = sum == C(0) ? C(0) : C(1) / sum;
    const int row = block.first + Tile::row_of(i);
    if (lane_x() == 0 && row < sizes.queries) {
      // Without a key to see the maximum is -inf, and the sum 0 says so too.
      lse[block.item * sizes.queries + row] =
          sum == C(0) ? softmax.lowest : softmax.maximum[i] + log(sum);
    }
  }
  store_rows<Tile>(result, inverse, out.at(block.b, block.h), out, block.first, sizes.queries,
                   sizes.dim);
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
      constexpr size_t bytes =
          sizeof(C) * (Tile::row_elements + 2 * Tile::column_elements + Tile::weight_elements);
      launch(forward_kernel<T, Tile>,
             tile_blocks(sizes.batch * sizes.heads, sizes.queries, Tile::rows), threads, bytes,
             Heads<T>(q), Heads<T>(k), Heads<T>(v), Heads<T>(out), lse.as<C>(), sizes, scale);
    });
  });
}

}  // namespace binade::backend::cuda::own
