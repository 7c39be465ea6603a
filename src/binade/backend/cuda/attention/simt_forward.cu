#include <cmath>
#include <limits>

#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/attention/tf32.h"
#include "binade/backend/cuda/attention/tile.cuh"
#include "binade/backend/cuda/common/block_reduce.cuh"

namespace binade::backend::cuda::native {
namespace {

// The largest tiles that fit 99 KiB of shared memory, all that a block may use on sm_86 and sm_89,
// and the registers of two blocks per multiprocessor.
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

// The running softmax of a thread's rows: maxima are over rows, sums over this lane's columns.
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

  // Replaces scores by exp(score - maximum) and rescales `result` to the new maximum.
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

// Multiplies scores of keys from `key` on by `scale`; keys that a row, from query `first` on, does
// not see get -inf. `unmasked`: every row sees every key of the tile.
template <class Tile, class C>
__device__ inline void scale_scores(const Sizes& sizes, C scale, int first, int key, bool unmasked,
                                    C (&scores)[Tile::Rows][Tile::Columns]) {
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int visible = unmasked ? sizes.keys : sizes.visible_keys(first + Tile::row_of(i));
#pragma unroll
    for (int j = 0; j < Tile::Columns; ++j) {
      const bool hidden = key + lane_x() + j * lanes_x >= visible;
      scores[i][j] = hidden ? OnlineSoftmax<Tile, C>::lowest : scores[i][j] * scale;
    }
  }
}

// One block attends one tile of queries of one head. Values are loaded while keys are multiplied,
// and the next keys while values are.
template <class T, class Tile, class C = Compute<T>>
__global__ void __launch_bounds__(threads, 2) forward_kernel(ForwardArguments<T> a, Sizes sizes) {
  C* const query_tile = shared_memory<C>();
  C* const key_tile = query_tile + Tile::row_elements;
  C* const value_tile = key_tile + Tile::column_elements;
  C* const weights = value_tile + Tile::column_elements;

  // The longest tiles of all heads start first, so that short ones fill the end.
  const int64_t items = sizes.batch * sizes.heads;
  const auto block =
      QueryTile::at<Tile::rows>(sizes, static_cast<int>(blockIdx.x / items), blockIdx.x % items);
  const T* const keys = a.k.at(block.b, block.kv);
  const T* const values = a.v.at(block.b, block.kv);
  const RowMask<Tile> mask(sizes, block.first);
  fetch<Tile, Tile::rows>(a.q, a.q.at(block.b, block.h), sizes.query_rows(block.first), query_tile);
  fetch<Tile, Tile::columns>(a.k, keys, sizes.key_rows(0), key_tile);
  OnlineSoftmax<Tile, C> softmax;
  typename Tile::Result result = {};
  for (int key = 0; key < block.keys; key += Tile::columns) {
    const bool seen = key < mask.keys;
    typename Tile::Scores scores = {};
    wait_copies();
    __syncthreads();  // the keys have arrived, and the previous values have been read
    fetch<Tile, Tile::columns>(a.v, values, sizes.key_rows(key), value_tile);
    if (seen) {
      multiply_rows<Tile>(query_tile, key_tile, sizes.depth(), scores);
      scale_scores<Tile>(sizes, a.scale, block.first, key, key + Tile::columns <= mask.keys_of_all,
                         scores);
      softmax.update(scores, result);
    }
    wait_copies();
    __syncthreads();  // the values have arrived, and the keys have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(a.k, keys, sizes.key_rows(key + Tile::columns), key_tile);
    if (seen) add_weighted<Tile>(scores, weights, value_tile, result);
  }

  C inverse[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const C sum = reduce_row(softmax.sum[i], Sum{});
    inverse[i] = sum == C(0) ? C(0) : C(1) / sum;
    const int row = block.first + Tile::row_of(i);
    if (lane_x() == 0 && row < sizes.queries) {
      // If the query sees no key, the sum is 0 and the maximum -inf.
      a.lse[block.item * sizes.queries + row] =
          sum == C(0) ? softmax.lowest : softmax.maximum[i] + log(sum);
    }
  }
  store_rows<Tile>(result, inverse, a.out, a.out.at(block.b, block.h),
                   sizes.query_rows(block.first));
}

}  // namespace

void attention_forward(const AttentionForward& call) {
  if (call.tf32 && attention_forward_tf32(call)) return;
  const Sizes sizes(call.q, call.k, call.causal);
  dispatch_floating("attention", call.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    with_chunks(sizes.dim, [&](auto chunks) {
      using Tile = ForwardTile<C, decltype(chunks)::value>;
      constexpr size_t bytes =
          sizeof(C) * (Tile::row_elements + 2 * Tile::column_elements + Tile::weight_elements);
      launch(forward_kernel<T, Tile>,
             tile_blocks(sizes.batch * sizes.heads, sizes.queries, Tile::rows), threads, bytes,
             ForwardArguments<T>(call), sizes);
    });
  });
}

}  // namespace binade::backend::cuda::native
