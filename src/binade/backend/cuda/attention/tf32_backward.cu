#include "binade/backend/cuda/attention/mma.cuh"
#include "binade/backend/cuda/attention/tf32.h"

// As in simt_backward.cu, on tensor cores: probabilities are recomputed from lse; one kernel sums
// dq over keys, another dk and dv over (head, query), in ascending order.
namespace binade::backend::cuda::native {
namespace {

// Sized so that two blocks fit the registers and shared memory of a multiprocessor; at most 99 KiB
// per block, all that sm_86 and sm_89 offer.
template <int Dim>
using QueryKernelTile = MmaTile<Dim <= 64 ? 2 : 1, 4, Dim>;
template <int Dim>
using KeyKernelTile = MmaTile<Dim <= 64 ? 2 : 1, Dim <= 64 ? 4 : 2, Dim>;

// dq of one tile of queries: rows are queries, columns keys.
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 2)
    query_kernel(BackwardArguments<float> a, Sizes sizes) {
  float* const query_tile = shared_memory<float>();
  float* const dout_tile = query_tile + Tile::row_elements;
  float* const key_tile = dout_tile + Tile::row_elements;
  float* const value_tile = key_tile + Tile::column_elements;

  const int tiles = ceil_div(sizes.queries, Tile::rows);
  const auto block = QueryTile::at<Tile::rows>(sizes, blockIdx.x % tiles, blockIdx.x / tiles);
  const float* const keys = a.k.at(block.b, block.kv);
  const float* const values = a.v.at(block.b, block.kv);
  const RowMask<Tile> mask(sizes, block.first);
  fetch<Tile, Tile::rows>(a.q, a.q.at(block.b, block.h), sizes.query_rows(block.first), query_tile);
  fetch<Tile, Tile::rows>(a.dout, a.dout.at(block.b, block.h), sizes.query_rows(block.first),
                          dout_tile);
  fetch<Tile, Tile::columns>(a.v, values, sizes.key_rows(0), value_tile);
  receive<Tile, Tile::rows>(query_tile);
  receive<Tile, Tile::rows>(dout_tile);

  int visible[Tile::M][2];
  float lse[Tile::M][2], delta[Tile::M][2], factor[Tile::M][2];
#pragma unroll
  for (int m = 0; m < Tile::M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = block.first + row_of<Tile>(m, half);
      const bool inside = row < sizes.queries;
      visible[m][half] = inside ? sizes.visible_keys(row) : 0;
      lse[m][half] = inside ? a.lse[block.item * sizes.queries + row] : 0.0f;
      delta[m][half] = inside ? a.delta[block.item * sizes.queries + row] : 0.0f;
      factor[m][half] = a.scale;
    }
  typename Tile::Result result = {};
  for (int key = 0; key < block.keys; key += Tile::columns) {
    const bool seen = key < mask.keys;
    typename Tile::Scores gradients = {};
    receive<Tile, Tile::columns>(value_tile);
    __syncthreads();  // the values have arrived, and the previous keys have been read
    fetch<Tile, Tile::columns>(a.k, keys, sizes.key_rows(key), key_tile);
    if (seen) multiply_rows<Tile>(dout_tile, value_tile, gradients);
    receive<Tile, Tile::columns>(key_tile);
    __syncthreads();  // the keys have arrived, and the values have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(a.v, values, sizes.key_rows(key + Tile::columns), value_tile);
    if (!seen) continue;
    typename Tile::Scores scores = {};
    multiply_rows<Tile>(query_tile, key_tile, scores);
#pragma unroll
    for (int m = 0; m < Tile::M; ++m)
#pragma unroll
      for (int n = 0; n < Tile::N; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool hidden = key + n * 8 + lane_pair() + e % 2 >= visible[m][e / 2];
          const float p = exponential(scores[m][n][e] * a.scale - lse[m][e / 2]);
          gradients[m][n][e] = hidden ? 0.0f : p * (gradients[m][n][e] - delta[m][e / 2]);
        }
    add_weighted<Tile>(gradients, key_tile, result);
  }
  store_rows<Tile>(result, factor, a.dq, a.dq.at(block.b, block.h), sizes.query_rows(block.first));
}

// The statistics of a lane's columns, queries from `query` on.
template <class Tile>
__device__ inline void load_columns(const float* statistics, int query, int queries,
                                    float (&values)[Tile::N][2]) {
#pragma unroll
  for (int n = 0; n < Tile::N; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = query + n * 8 + lane_pair() + e;
      values[n][e] = column < queries ? statistics[column] : 0.0f;
    }
}

// Calls f(m, n, e, hidden) for each of a lane's scores; `hidden` if the query of a column does not
// see the key of a row.
template <class Tile, class F>
__device__ inline void for_each_score(const Sizes& sizes, const ColumnMask<Tile>& mask,
                                      int first_key, int query, F&& f) {
#pragma unroll
  for (int n = 0; n < Tile::N; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int visible = mask.visible(sizes, query + n * 8 + lane_pair() + e);
#pragma unroll
      for (int m = 0; m < Tile::M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          f(m, n, 2 * half + e, first_key + row_of<Tile>(m, half) >= visible);
    }
}

// dk and dv of one tile of keys over all heads that read them: rows are keys, columns queries.
// A tile of queries is read until the end of a step, so the next queries go to a second tile.
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 2)
    key_kernel(BackwardArguments<float> a, Sizes sizes) {
  float* const key_tile = shared_memory<float>();
  float* const value_tile = key_tile + Tile::row_elements;
  float* const dout_tile = value_tile + Tile::row_elements;
  float* query_tile = dout_tile + Tile::column_elements;
  float* next_tile = query_tile + Tile::column_elements;

  const int tiles = ceil_div(sizes.keys, Tile::rows);
  const auto block = KeyTile::at<Tile::rows>(sizes, blockIdx.x % tiles, blockIdx.x / tiles);
  fetch<Tile, Tile::rows>(a.k, a.k.at(block.b, block.kv), sizes.key_rows(block.first), key_tile);
  fetch<Tile, Tile::rows>(a.v, a.v.at(block.b, block.kv), sizes.key_rows(block.first), value_tile);
  receive<Tile, Tile::rows>(key_tile);
  receive<Tile, Tile::rows>(value_tile);
  typename Tile::Result dk = {}, dv = {};
  const int begin = sizes.first_query(block.first) / Tile::columns * Tile::columns;
  for (int h = block.kv * sizes.group(); h < (block.kv + 1) * sizes.group(); ++h) {
    const float* const queries = a.q.at(block.b, h);
    const int64_t row = (block.b * sizes.heads + h) * sizes.queries;
    if (begin < sizes.queries)
      fetch<Tile, Tile::columns>(a.q, queries, sizes.query_rows(begin), query_tile);
    for (int query = begin; query < sizes.queries; query += Tile::columns) {
      const ColumnMask<Tile> mask(sizes, block.first, query);
      float statistics[Tile::N][2];  // lse, then delta
      typename Tile::Scores p = {}, gradients = {};
      receive<Tile, Tile::columns>(query_tile);
      __syncthreads();  // the queries have arrived, and the previous tiles have been read
      fetch<Tile, Tile::columns>(a.dout, a.dout.at(block.b, h), sizes.query_rows(query), dout_tile);
      load_columns<Tile>(a.lse + row, query, sizes.queries, statistics);
      if (mask.some) {
        multiply_rows<Tile>(key_tile, query_tile, p);
        for_each_score<Tile>(sizes, mask, block.first, query,
                             [&](int m, int n, int e, bool hidden) {
                               const float x = p[m][n][e] * a.scale - statistics[n][e % 2];
                               p[m][n][e] = hidden ? 0.0f : exponential(x);
                             });
      }
      receive<Tile, Tile::columns>(dout_tile);
      __syncthreads();  // the gradients have arrived
      if (query + Tile::columns < sizes.queries)
        fetch<Tile, Tile::columns>(a.q, queries, sizes.query_rows(query + Tile::columns),
                                   next_tile);
      load_columns<Tile>(a.delta + row, query, sizes.queries, statistics);
      if (mask.some) {
        add_weighted<Tile>(p, dout_tile, dv);
        multiply_rows<Tile>(value_tile, dout_tile, gradients);
        for_each_score<Tile>(sizes, mask, block.first, query,
                             [&](int m, int n, int e, bool hidden) {
                               const float g = gradients[m][n][e] - statistics[n][e % 2];
                               gradients[m][n][e] = hidden ? 0.0f : p[m][n][e] * g;
                             });
        add_weighted<Tile>(gradients, query_tile, dk);
      }
      float* const read = query_tile;
      query_tile = next_tile;
      next_tile = read;
    }
  }

  float scale[Tile::M][2], one[Tile::M][2];
#pragma unroll
  for (int i = 0; i < 2 * Tile::M; ++i) {
    scale[i / 2][i % 2] = a.scale;
    one[i / 2][i % 2] = 1;
  }
  store_rows<Tile>(dk, scale, a.dk, a.dk.at(block.b, block.kv), sizes.key_rows(block.first));
  store_rows<Tile>(dv, one, a.dv, a.dv.at(block.b, block.kv), sizes.key_rows(block.first));
}

template <int Dim>
void run(const BackwardArguments<float>& arguments, const Sizes& sizes) {
  using Queries = QueryKernelTile<Dim>;
  using Keys = KeyKernelTile<Dim>;
  constexpr size_t query_bytes =
      sizeof(float) * (2 * Queries::row_elements + 2 * Queries::column_elements);
  constexpr size_t key_bytes = sizeof(float) * (2 * Keys::row_elements + 3 * Keys::column_elements);
  launch(query_kernel<Queries>,
         tile_blocks(sizes.batch * sizes.heads, sizes.queries, Queries::rows), Queries::threads,
         query_bytes, arguments, sizes);
  launch(key_kernel<Keys>, tile_blocks(sizes.batch * sizes.kv_heads, sizes.keys, Keys::rows),
         Keys::threads, key_bytes, arguments, sizes);
}

}  // namespace

bool attention_backward_tf32(const AttentionBackward& call, const TensorView& delta) {
  if (!tf32_supports({&call.dout, &call.q, &call.k, &call.v, &call.dq, &call.dk, &call.dv}))
    return false;
  const Sizes sizes(call.q, call.k, call.causal);
  const BackwardArguments<float> arguments(call, delta.as<float>());
  sizes.dim <= 64 ? run<64>(arguments, sizes) : run<128>(arguments, sizes);
  return true;
}

}  // namespace binade::backend::cuda::native
