#include <limits>

#include "binade/backend/cuda/attention/mma.cuh"
#include "binade/backend/cuda/attention/tf32.h"
#include "binade/backend/cuda/common/block_reduce.cuh"

namespace binade::backend::cuda::native {
namespace {

// Sized so that two blocks fit the registers and shared memory of a multiprocessor; at most 99 KiB
// per block, all that sm_86 and sm_89 offer.
template <int Dim>
using ForwardTile = MmaTile<2, Dim <= 64 ? 8 : 4, Dim>;

// The running softmax of a lane's rows: maxima are over rows, sums over this lane's columns.
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

  // Replaces scores by exp(score - maximum) and rescales `result` to the new maximum.
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

// Multiplies scores of keys from `key` on by `scale`; keys from each row's `visible` on get -inf.
// `unmasked`: every row sees every key of the tile.
template <class Tile>
__device__ inline void scale_scores(float scale, int key, bool unmasked,
                                    const int (&visible)[Tile::M][2],
                                    typename Tile::Scores& scores) {
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int n = 0; n < Tile::N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[m][n][e] *= scale;
  if (unmasked) return;
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int n = 0; n < Tile::N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (key + n * 8 + lane_pair() + e % 2 >= visible[m][e / 2])
          scores[m][n][e] = OnlineSoftmax<Tile>::lowest;
}

// One block attends one tile of queries of one head. Values are loaded while keys are multiplied,
// and the next keys while values are.
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 2)
    forward_kernel(ForwardArguments<float> a, Sizes sizes) {
  float* const query_tile = shared_memory<float>();
  float* const key_tile = query_tile + Tile::row_elements;
  float* const value_tile = key_tile + Tile::column_elements;

  const int tiles = ceil_div(sizes.queries, Tile::rows);
  const auto block = QueryTile::at<Tile::rows>(sizes, blockIdx.x % tiles, blockIdx.x / tiles);
  const float* const keys = a.k.at(block.b, block.kv);
  const float* const values = a.v.at(block.b, block.kv);
  const RowMask<Tile> mask(sizes, block.first);
  int visible[Tile::M][2];
#pragma unroll
  for (int i = 0; i < 2 * Tile::M; ++i)
    visible[i / 2][i % 2] = sizes.visible_keys(block.first + row_of<Tile>(i / 2, i % 2));

  fetch<Tile, Tile::rows>(a.q, a.q.at(block.b, block.h), sizes.query_rows(block.first), query_tile);
  fetch<Tile, Tile::columns>(a.k, keys, sizes.key_rows(0), key_tile);
  receive<Tile, Tile::rows>(query_tile);
  OnlineSoftmax<Tile> softmax;
  typename Tile::Result result = {};
  for (int key = 0; key < block.keys; key += Tile::columns) {
    const bool seen = key < mask.keys;
    typename Tile::Scores scores = {};
    receive<Tile, Tile::columns>(key_tile);
    __syncthreads();  // the keys have arrived, and the previous values have been read
    fetch<Tile, Tile::columns>(a.v, values, sizes.key_rows(key), value_tile);
    if (seen) {
      multiply_rows<Tile>(query_tile, key_tile, scores);
      scale_scores<Tile>(a.scale, key, key + Tile::columns <= mask.keys_of_all, visible, scores);
      softmax.update(scores, result);
    }
    receive<Tile, Tile::columns>(value_tile);
    __syncthreads();  // the values have arrived, and the keys have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(a.k, keys, sizes.key_rows(key + Tile::columns), key_tile);
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
      // If the query sees no key, the sum is 0 and the maximum -inf.
      if (lane_pair() == 0 && row < sizes.queries)
        a.lse[block.item * sizes.queries + row] =
            sum == 0 ? softmax.lowest : softmax.maximum[m][half] + logf(sum);
    }
  store_rows<Tile>(result, inverse, a.out, a.out.at(block.b, block.h),
                   sizes.query_rows(block.first));
}

template <int Dim>
void run(const AttentionForward& call, const Sizes& sizes) {
  using Tile = ForwardTile<Dim>;
  constexpr size_t bytes = sizeof(float) * (Tile::row_elements + 2 * Tile::column_elements);
  launch(forward_kernel<Tile>, tile_blocks(sizes.batch * sizes.heads, sizes.queries, Tile::rows),
         Tile::threads, bytes, ForwardArguments<float>(call), sizes);
}

}  // namespace

bool attention_forward_tf32(const AttentionForward& call) {
  if (!tf32_supports({&call.q, &call.k, &call.v, &call.out})) return false;
  const Sizes sizes(call.q, call.k, call.causal);
  sizes.dim <= 64 ? run<64>(call, sizes) : run<128>(call, sizes);
  return true;
}

}  // namespace binade::backend::cuda::native
