#include <limits>

#include "binade/backend/cuda/attention/mma.cuh"
#include "binade/backend/cuda/attention/tf32.h"
#include "binade/backend/cuda/common/block_reduce.cuh"

namespace binade::backend::cuda::own {
namespace {

// Two blocks' registers and shared memory fit a multiprocessor; 99 KiB a block at most.
template <int Dim>
using ForwardTile = MmaTile<2, Dim <= 64 ? 8 : 4, Dim>;

// The running softmax of a lane's rows: maxima are a row's, sums are of the lane's own columns.
template <class Tile>
struct OnlineSoftmax {
  static constexpr float lowest = -std::numeric_limits<float>::infinity();
  float maximum[Tile::M][2], sum[Tile::M][2];

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int i = 0; i < 2 * Tile::M; ++i) {
      maximum[i / 2][i % 2] = lowest;
      sum[i / 2][i % 2] = 0;
    }
  }

  // Takes scores, leaves exp(score - maximum) in their place and brings `result` to the new
  // maximum.
  __device__ void update(typename Tile::Scores& scores, typename Tile::Result& result) {
#pragma unroll
    for (int m = 0; m < Tile::M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float best = maximum[m][half];
#pragma unroll
        for (int n = 0; n < Tile::N; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) best = fmaxf(best, scores[m][n][e]);
        best = reduce_row(best, Max{});
        const float shift = best == lowest ? 0.0f : best;
        const float correction = exponential(maximum[m][half] - shift);
        maximum[m][half] = best;
        float total = sum[m][half] * correction;
#pragma unroll
        for (int n = 0; n < Tile::N; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            scores[m][n][e] = exponential(scores[m][n][e] - shift);
            total += scores[m][n][e];
          }
        sum[m][half] = total;
#pragma unroll
        for (int d = 0; d < Tile::D; ++d)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) result[m][d][e] *= correction;
      }
  }
};

// Multiplies products by `scale`; they become -inf from each row's `visible` key on.
template <class Tile>
__device__ inline void scale_scores(float scale, int key, bool whole,
                                    const int (&visible)[Tile::M][2],
                                    typename Tile::Scores& scores) {
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int n = 0; n < Tile::N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[m][n][e] *= scale;
  if (whole) return;
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int n = 0; n < Tile::N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (key + n * 8 + lane_pair() + e % 2 >= visible[m][e / 2])
          scores[m][n][e] = OnlineSoftmax<Tile>::lowest;
}

// One block attends one tile of queries of one head. While a product is made of keys, their values
// arrive, and the other way round.
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 2)
    forward_kernel(Heads<float> q, Heads<float> k, Heads<float> v, Heads<float> out, float* lse,
                   Sizes sizes, float scale) {
  float* const query_tile = shared_memory<float>();
  float* const key_tile = query_tile + Tile::row_elements;
  float* const value_tile = key_tile + Tile::column_elements;

  const int tiles = ceil_div(sizes.queries, Tile::rows);
  const auto block = QueryTile::at<Tile::rows>(sizes, blockIdx.x % tiles, blockIdx.x / tiles);
  const float* const keys = k.at(block.b, block.kv);
  const float* const values = v.at(block.b, block.kv);
  const RowMask<Tile> mask(sizes, block.first);
  int visible[Tile::M][2];
#pragma unroll
  for (int i = 0; i < 2 * Tile::M; ++i)
    visible[i / 2][i % 2] = sizes.visible_keys(block.first + row_of<Tile>(i / 2, i % 2));

  fetch<Tile, Tile::rows>(q, q.at(block.b, block.h), block.first, sizes.queries, sizes.dim,
                          query_tile);
  fetch<Tile, Tile::columns>(k, keys, 0, sizes.keys, sizes.dim, key_tile);
  receive<Tile, Tile::rows>(query_tile);
  OnlineSoftmax<Tile> softmax;
  typename Tile::Result result = {};
  for (int key = 0; key < block.keys; key += Tile::columns) {
    const bool seen = key < mask.keys;
    typename Tile::Scores scores = {};
    receive<Tile, Tile::columns>(key_tile);
    __syncthreads();  // the keys are there, and the values before have been read
    fetch<Tile, Tile::columns>(v, values, key, sizes.keys, sizes.dim, value_tile);
    if (seen) {
      multiply_rows<Tile>(query_tile, key_tile, scores);
      scale_scores<Tile>(scale, key, key + Tile::columns <= mask.keys_of_all, visible, scores);
      softmax.update(scores, result);
    }
    receive<Tile, Tile::columns>(value_tile);
    __syncthreads();  // the values are there, and the keys have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(k, keys, key + Tile::columns, sizes.keys, sizes.dim, key_tile);
    if (seen) add_weighted<Tile>(scores, value_tile, result);
  }

  float inverse[Tile::M][2];
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = reduce_row(softmax.sum[m][half], Sum{});
      inverse[m][half] = sum == 0 ? 0.0f : 1 / sum;
      const int row = block.first + row_of<Tile>(m, half);
      // Without a key to see the maximum is -inf, and the sum 0 says so too.
      if (lane_pair() == 0 && row < sizes.queries)
        lse[block.item * sizes.queries + row] =
            sum == 0 ? softmax.lowest : softmax.maximum[m][half] + logf(sum);
    }
  store_rows<Tile>(result, inverse, out.at(block.b, block.h), out, block.first, sizes.queries,
                   sizes.dim);
}

template <int Dim>
void run(const TensorView& q, const TensorView& k, const TensorView& v, const Sizes& sizes,
         double scale, const TensorView& out, const TensorView& lse) {
  using Tile = ForwardTile<Dim>;
  constexpr size_t bytes = sizeof(float) * (Tile::row_elements + 2 * Tile::column_elements);
  launch(forward_kernel<Tile>, tile_blocks(sizes.batch * sizes.heads, sizes.queries, Tile::rows),
         Tile::threads, bytes, Heads<float>(q), Heads<float>(k), Heads<float>(v), Heads<float>(out),
         lse.as<float>(), sizes, scale);
}

}  // namespace

bool attention_forward_tf32(const TensorView& q, const TensorView& k, const TensorView& v,
                            double scale, bool causal, const TensorView& out,
                            const TensorView& lse) {
  if (!served_in_tf32({&q, &k, &v, &out})) return false;
  const Sizes sizes(q, k, causal);
  sizes.dim <= 64 ? run<64>(q, k, v, sizes, scale, out, lse)
                  : run<128>(q, k, v, sizes, scale, out, lse);
  return true;
}

}  // namespace binade::backend::cuda::own
