#include <type_traits>

#include "binade/backend/cuda/attention_own.h"
#include "binade/backend/cuda/attention_tf32.h"
#include "binade/backend/cuda/attention_tile.cuh"
#include "binade/backend/cuda/reduce.cuh"
#include "binade/tensor/memory.h"

// Probabilities are recomputed from lse a tile at a time. One kernel sums dq over keys, another dk
// and dv over (head, query), each by one block in ascending order: no sum depends on timing.
namespace binade::backend::cuda::own {
namespace {

// Two tiles of rows stay in shared memory, one of columns changes; 99 KiB in all at most.
template <class C, int Chunks>
struct BackwardTile;
template <>
struct BackwardTile<float, 1> : Tile<float, 4, 4, 1> {};
template <>
struct BackwardTile<float, 2> : Tile<float, 2, 4, 2> {};
template <>
struct BackwardTile<float, 4> : Tile<float, 1, 2, 4> {};
template <>
struct BackwardTile<double, 1> : Tile<double, 2, 2, 1> {};
template <>
struct BackwardTile<double, 2> : Tile<double, 1, 2, 2> {};
template <>
struct BackwardTile<double, 4> : Tile<double, 1, 1, 4> {};

template <class Tile, class C>
constexpr size_t shared_bytes = sizeof(C) * (2 * Tile::row_elements + Tile::column_elements +
                                             Tile::score_elements);

// delta[row] = the sum of dout * out over a row of a head: a warp a row.
template <class T, class C = Compute<T>>
__global__ void delta_kernel(Heads<T> dout, Heads<T> out, Sizes sizes, C* delta) {
  const int64_t row = first_item() / warp_size;
  if (row >= sizes.batch * sizes.heads * sizes.queries) return;
  const int64_t item = row / sizes.queries, query = row % sizes.queries;
  const int64_t b = item / sizes.heads, h = item % sizes.heads;
  const T* x = dout.at(b, h) + query * dout.row;
  const T* y = out.at(b, h) + query * out.row;
  C sum = 0;
  for (int i = threadIdx.x % warp_size; i < sizes.dim; i += warp_size)
    sum += static_cast<C>(x[i]) * static_cast<C>(y[i]);
  sum = reduce_warp(sum, Sum{});
  if (threadIdx.x % warp_size == 0) delta[row] = sum;
}

// dq of one tile of queries: rows are queries, columns keys.
template <class T, class Tile, class C = Compute<T>>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor<C>)
    query_kernel(BackwardArguments<T> a, Sizes sizes) {
  C* const query_tile = shared_memory<C>();
  C* const dout_tile = query_tile + Tile::row_elements;
  C* const column_tile = dout_tile + Tile::row_elements;
  C* const weights = column_tile + Tile::column_elements;

  const int tiles = ceil_div(sizes.queries, Tile::rows);
  const int64_t item = blockIdx.x / tiles;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * Tile::rows;
  const int64_t b = item / sizes.heads;
  const int h = static_cast<int>(item % sizes.heads), kv = h / sizes.group();

  load_rows<Tile::rows, Tile::dim>(a.q.at(b, h), a.q, first, sizes.queries, sizes.dim, query_tile);
  load_rows<Tile::rows, Tile::dim>(a.dout.at(b, h), a.dout, first, sizes.queries, sizes.dim,
                                   dout_tile);
  int visible[Tile::Rows];
  C lse[Tile::Rows], delta[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int row = first + lane_y() * Tile::Rows + i;
    const bool inside = row < sizes.queries;
    visible[i] = inside ? sizes.visible_keys(row) : 0;
    lse[i] = inside ? a.lse[item * sizes.queries + row] : C(0);
    delta[i] = inside ? a.delta[item * sizes.queries + row] : C(0);
  }
  Result<Tile, C> result = {};
  const int keys = sizes.visible_keys(min(first + Tile::rows, sizes.queries) - 1);
  for (int key = 0; key < keys; key += Tile::columns) {
    __syncthreads();
    load_rows<Tile::columns, Tile::dim>(a.v.at(b, kv), a.v, key, sizes.keys, sizes.dim,
                                        column_tile);
    __syncthreads();
    C gradients[Tile::Rows][Tile::Columns] = {}, scores[Tile::Rows][Tile::Columns] = {};
    multiply_rows<Tile>(dout_tile, column_tile, sizes.depth(), gradients);
    __syncthreads();
    load_rows<Tile::columns, Tile::dim>(a.k.at(b, kv), a.k, key, sizes.keys, sizes.dim,
                                        column_tile);
    __syncthreads();
    multiply_rows<Tile>(query_tile, column_tile, sizes.depth(), scores);
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) {
        const bool hidden = key + lane_x() + j * side >= visible[i];
        const C p = exponential(scores[i][j] * a.scale - lse[i]);
        gradients[i][j] = hidden ? C(0) : p * (gradients[i][j] - delta[i]);
      }
    store_scores<Tile>(gradients, weights);
    __syncwarp();  // a row's weights are written and read by half a warp
    add_weighted<Tile>(weights, column_tile, result);
  }

  C factor[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) factor[i] = a.scale;
  store_rows<Tile>(result, factor, a.dq.at(b, h), a.dq, first, sizes.queries, sizes.dim);
}

// dk and dv of one tile of keys over all heads that read them: rows are keys, columns queries.
template <class T, class Tile, class C = Compute<T>>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor<C>)
    key_kernel(BackwardArguments<T> a, Sizes sizes) {
  C* const key_tile = shared_memory<C>();
  C* const value_tile = key_tile + Tile::row_elements;
  C* const column_tile = value_tile + Tile::row_elements;
  C* const weights = column_tile + Tile::column_elements;

  // Early keys are seen by more queries: their blocks start first.
  const int tiles = ceil_div(sizes.keys, Tile::rows);
  const int64_t item = blockIdx.x / tiles;
  const int first = static_cast<int>(blockIdx.x % tiles) * Tile::rows;
  const int64_t b = item / sizes.kv_heads;
  const int kv = static_cast<int>(item % sizes.kv_heads);

  load_rows<Tile::rows, Tile::dim>(a.k.at(b, kv), a.k, first, sizes.keys, sizes.dim, key_tile);
  load_rows<Tile::rows, Tile::dim>(a.v.at(b, kv), a.v, first, sizes.keys, sizes.dim, value_tile);
  Result<Tile, C> dk = {}, dv = {};
  const int first_query = sizes.first_query(first) / Tile::columns * Tile::columns;
  for (int h = kv * sizes.group(); h < (kv + 1) * sizes.group(); ++h) {
    const C* lse = a.lse + (b * sizes.heads + h) * sizes.queries;
    const C* delta = a.delta + (b * sizes.heads + h) * sizes.queries;
    for (int query = first_query; query < sizes.queries; query += Tile::columns) {
      __syncthreads();
      load_rows<Tile::columns, Tile::dim>(a.q.at(b, h), a.q, query, sizes.queries, sizes.dim,
                                          column_tile);
      __syncthreads();
      C p[Tile::Rows][Tile::Columns] = {}, gradients[Tile::Rows][Tile::Columns] = {};
      multiply_rows<Tile>(key_tile, column_tile, sizes.depth(), p);
      int visible[Tile::Columns];  // how many keys each column's query sees
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) {
        const int column = query + lane_x() + j * side;
        const bool inside = column < sizes.queries;
        visible[j] = inside ? sizes.visible_keys(column) : 0;
        const C row_lse = inside ? lse[column] : C(0);
#pragma unroll
        for (int i = 0; i < Tile::Rows; ++i) {
          const bool hidden = first + lane_y() * Tile::Rows + i >= visible[j];
          p[i][j] = hidden ? C(0) : exponential(p[i][j] * a.scale - row_lse);
        }
      }
      store_scores<Tile>(p, weights);
      __syncthreads();
      load_rows<Tile::columns, Tile::dim>(a.dout.at(b, h), a.dout, query, sizes.queries, sizes.dim,
                                          column_tile);
      __syncthreads();
      add_weighted<Tile>(weights, column_tile, dv);
      multiply_rows<Tile>(value_tile, column_tile, sizes.depth(), gradients);
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) {
        const int column = query + lane_x() + j * side;
        const C row_delta = column < sizes.queries ? delta[column] : C(0);
#pragma unroll
        for (int i = 0; i < Tile::Rows; ++i) {
          const bool hidden = first + lane_y() * Tile::Rows + i >= visible[j];
          gradients[i][j] = hidden ? C(0) : p[i][j] * (gradients[i][j] - row_delta);
        }
      }
      __syncthreads();  // weights and columns have been read
      store_scores<Tile>(gradients, weights);
      load_rows<Tile::columns, Tile::dim>(a.q.at(b, h), a.q, query, sizes.queries, sizes.dim,
                                          column_tile);
      __syncthreads();
      add_weighted<Tile>(weights, column_tile, dk);
    }
  }

  C scale[Tile::Rows], one[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    scale[i] = a.scale;
    one[i] = 1;
  }
  store_rows<Tile>(dk, scale, a.dk.at(b, kv), a.dk, first, sizes.keys, sizes.dim);
  store_rows<Tile>(dv, one, a.dv.at(b, kv), a.dv, first, sizes.keys, sizes.dim);
}

}  // namespace

void attention_backward(const TensorView& dout, const TensorView& q, const TensorView& k,
                        const TensorView& v, const TensorView& out, const TensorView& lse,
                        double scale, bool causal, bool tf32, const TensorView& dq,
                        const TensorView& dk, const TensorView& dv) {
  const Sizes sizes(q, k, causal);
  const memory::CategoryGuard guard(memory::Category::workspace);
  const Tensor delta_rows = Tensor::empty(lse.shape, lse.dtype, device());
  dispatch_floating("attention", q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    C* const delta = static_cast<C*>(delta_rows.raw_data());
    const int64_t rows = sizes.batch * sizes.heads * sizes.queries;
    launch(delta_kernel<T>, static_cast<unsigned>(ceil_div<int64_t>(rows * warp_size, threads)),
           threads, 0, Heads<T>(dout), Heads<T>(out), sizes, delta);
    if (tf32 && attention_backward_tf32(dout, q, k, v, lse, delta_rows, scale, causal, dq, dk, dv))
      return;
    const BackwardArguments<T> arguments{
        Heads<T>(dout), Heads<T>(q),  Heads<T>(k), Heads<T>(v), Heads<T>(dq),
        Heads<T>(dk),   Heads<T>(dv), lse.as<C>(), delta,       static_cast<C>(scale)};
    with_chunks(sizes.dim, [&](auto chunks) {
      using Tile = BackwardTile<C, decltype(chunks)::value>;
      const int64_t query_blocks =
          sizes.batch * sizes.heads * ceil_div<int64_t>(sizes.queries, Tile::rows);
      launch(query_kernel<T, Tile>, static_cast<unsigned>(query_blocks), threads,
             shared_bytes<Tile, C>, arguments, sizes);
      const int64_t key_blocks =
          sizes.batch * sizes.kv_heads * ceil_div<int64_t>(sizes.keys, Tile::rows);
      launch(key_kernel<T, Tile>, static_cast<unsigned>(key_blocks), threads, shared_bytes<Tile, C>,
             arguments, sizes);
    });
  });
}

}  // namespace binade::backend::cuda::own
