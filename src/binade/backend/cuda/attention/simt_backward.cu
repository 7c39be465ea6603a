#include <algorithm>
#include <type_traits>

#include "binade/backend/cuda/attention/score_gradients.h"
#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/attention/tf32.h"
#include "binade/backend/cuda/attention/tile.cuh"
#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/base/division.h"
#include "binade/tensor/memory.h"

// Probabilities are recomputed from lse a tile at a time. One kernel sums dk and dv over (head,
// query), another dq over keys, each by one block in ascending order: no sum depends on timing.
namespace binade::backend::cuda::native {
namespace {

// Two tiles of rows stay in shared memory, two of columns change; at most 99 KiB in all, which is
// what sm_86 and sm_89 offer a block.
template <class C, int Chunks>
struct BackwardTile;
template <>
struct BackwardTile<float, 2> : Tile<float, 4, 8, 2> {};
template <>
struct BackwardTile<float, 4> : Tile<float, 4, 2, 4> {};
template <>
struct BackwardTile<float, 8> : Tile<float, 2, 1, 8> {};
template <>
struct BackwardTile<double, 2> : Tile<double, 2, 4, 2> {};
template <>
struct BackwardTile<double, 4> : Tile<double, 1, 2, 4> {};
template <>
struct BackwardTile<double, 8> : Tile<double, 1, 1, 8> {};

template <class Tile, class C>
constexpr size_t shared_bytes = sizeof(C) * (2 * Tile::row_elements + 2 * Tile::column_elements +
                                             Tile::weight_elements);

// delta[row] = the sum of dout * out over a row of a head, one warp per row.
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
__global__ void __launch_bounds__(threads, 2) query_kernel(BackwardArguments<T> a, Sizes sizes) {
  C* const query_tile = shared_memory<C>();
  C* const dout_tile = query_tile + Tile::row_elements;
  C* const key_tile = dout_tile + Tile::row_elements;
  C* const value_tile = key_tile + Tile::column_elements;
  C* const weights = value_tile + Tile::column_elements;

  const int64_t items = sizes.batch * sizes.heads;
  const auto block =
      QueryTile::at<Tile::rows>(sizes, static_cast<int>(blockIdx.x / items), blockIdx.x % items);
  const T* const keys = a.k.at(block.b, block.kv);
  const T* const values = a.v.at(block.b, block.kv);
  const RowMask<Tile> mask(sizes, block.first);
  fetch<Tile, Tile::rows>(a.q, a.q.at(block.b, block.h), sizes.query_rows(block.first), query_tile);
  fetch<Tile, Tile::rows>(a.dout, a.dout.at(block.b, block.h), sizes.query_rows(block.first),
                          dout_tile);
  fetch<Tile, Tile::columns>(a.v, values, sizes.key_rows(0), value_tile);
  int visible[Tile::Rows];
  C lse[Tile::Rows], delta[Tile::Rows], factor[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int row = block.first + Tile::row_of(i);
    const bool inside = row < sizes.queries;
    visible[i] = inside ? sizes.visible_keys(row) : 0;
    lse[i] = inside ? a.lse[block.item * sizes.queries + row] : C(0);
    delta[i] = inside ? a.delta[block.item * sizes.queries + row] : C(0);
    factor[i] = a.scale;
  }
  typename Tile::Result result = {};
  for (int key = 0; key < block.keys; key += Tile::columns) {
    const bool seen = key < mask.keys;
    typename Tile::Scores gradients = {};
    wait_copies();
    __syncthreads();  // the values have arrived, and the previous keys have been read
    fetch<Tile, Tile::columns>(a.k, keys, sizes.key_rows(key), key_tile);
    if (seen) multiply_rows<Tile>(dout_tile, value_tile, sizes.depth(), gradients);
    wait_copies();
    __syncthreads();  // the keys have arrived, and the values have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(a.v, values, sizes.key_rows(key + Tile::columns), value_tile);
    if (!seen) continue;
    typename Tile::Scores scores = {};
    multiply_rows<Tile>(query_tile, key_tile, sizes.depth(), scores);
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::Columns; ++j) {
        const bool hidden = key + lane_x() + j * lanes_x >= visible[i];
        const C p = exponential(scores[i][j] * a.scale - lse[i]);
        gradients[i][j] = hidden ? C(0) : p * (gradients[i][j] - delta[i]);
      }
    add_weighted<Tile>(gradients, weights, key_tile, result);
  }
  store_rows<Tile>(result, factor, a.dq, a.dq.at(block.b, block.h), sizes.query_rows(block.first));
}

// Calls f(i, j, statistic, hidden) for each of a thread's scores, whose rows are keys from `first`
// on; `hidden` if the query of column j, from `query` on, does not see the key of row i.
template <class Tile, class C, class F>
__device__ inline void for_each_score(const Sizes& sizes, const ColumnMask<Tile>& mask, int first,
                                      int query, const C* statistics, F&& f) {
#pragma unroll
  for (int j = 0; j < Tile::Columns; ++j) {
    const int column = query + lane_x() + j * lanes_x;
    const int visible = mask.visible(sizes, column);
    const C statistic = column < sizes.queries ? statistics[column] : C(0);
#pragma unroll
    for (int i = 0; i < Tile::Rows; ++i) f(i, j, statistic, first + Tile::row_of(i) >= visible);
  }
}

// Stores a thread's part of the gradients of a head's scores.
template <class Tile, class C>
__device__ inline void store_gradients(const C (&gradients)[Tile::Rows][Tile::Columns],
                                       const StoredGradients<C>& stored, const Sizes& sizes,
                                       int64_t item, int first, int query) {
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    const int key = first + Tile::row_of(i);
    if (key >= sizes.keys) continue;
    C* const row = stored.at(item, sizes.group(), sizes.keys, key);
#pragma unroll
    for (int j = 0; j < Tile::Columns; ++j) {
      const int column = query + lane_x() + j * lanes_x;
      if (column < sizes.queries) row[column] = gradients[i][j];
    }
  }
}

// dk and dv of one tile of keys over all heads that read them: rows are keys, columns queries. The
// gradients of scores are written to `stored` as well if it has memory.
template <class T, class Tile, class C = Compute<T>>
__global__ void __launch_bounds__(threads, 2)
    key_kernel(BackwardArguments<T> a, Sizes sizes, StoredGradients<C> stored) {
  C* const key_tile = shared_memory<C>();
  C* const value_tile = key_tile + Tile::row_elements;
  C* const query_tile = value_tile + Tile::row_elements;
  C* const dout_tile = query_tile + Tile::column_elements;
  C* const weights = dout_tile + Tile::column_elements;

  const auto block = KeyTile::at<Tile::rows>(sizes, static_cast<int>(blockIdx.x / stored.items),
                                             stored.first + blockIdx.x % stored.items);
  fetch<Tile, Tile::rows>(a.k, a.k.at(block.b, block.kv), sizes.key_rows(block.first), key_tile);
  fetch<Tile, Tile::rows>(a.v, a.v.at(block.b, block.kv), sizes.key_rows(block.first), value_tile);
  typename Tile::Result dk = {}, dv = {};
  const int begin = sizes.first_query(block.first) / Tile::columns * Tile::columns;
  for (int h = block.kv * sizes.group(); h < (block.kv + 1) * sizes.group(); ++h) {
    const int64_t item = block.b * sizes.heads + h;
    const C* const lse = a.lse + item * sizes.queries;
    const C* const delta = a.delta + item * sizes.queries;
    for (int query = begin; query < sizes.queries; query += Tile::columns) {
      const ColumnMask<Tile> mask(sizes, block.first, query);
      __syncthreads();  // the previous columns have been read
      fetch<Tile, Tile::columns>(a.q, a.q.at(block.b, h), sizes.query_rows(query), query_tile);
      fetch<Tile, Tile::columns>(a.dout, a.dout.at(block.b, h), sizes.query_rows(query), dout_tile);
      wait_copies();
      __syncthreads();
      if (!mask.some) continue;
      typename Tile::Scores p = {}, gradients = {};
      multiply_rows<Tile>(key_tile, query_tile, sizes.depth(), p);
      for_each_score<Tile>(sizes, mask, block.first, query, lse,
                           [&](int i, int j, C row_lse, bool hidden) {
                             p[i][j] = hidden ? C(0) : exponential(p[i][j] * a.scale - row_lse);
                           });
      add_weighted<Tile>(p, weights, dout_tile, dv);
      multiply_rows<Tile>(value_tile, dout_tile, sizes.depth(), gradients);
      for_each_score<Tile>(sizes, mask, block.first, query, delta,
                           [&](int i, int j, C row_delta, bool hidden) {
                             const C g = gradients[i][j] - row_delta;
                             gradients[i][j] = hidden ? C(0) : p[i][j] * g;
                           });
      if (stored.data != nullptr)
        store_gradients<Tile>(gradients, stored, sizes, item, block.first, query);
      add_weighted<Tile>(gradients, weights, query_tile, dk);
    }
  }

  C scale[Tile::Rows], one[Tile::Rows];
#pragma unroll
  for (int i = 0; i < Tile::Rows; ++i) {
    scale[i] = a.scale;
    one[i] = 1;
  }
  store_rows<Tile>(dk, scale, a.dk, a.dk.at(block.b, block.kv), sizes.key_rows(block.first));
  store_rows<Tile>(dv, one, a.dv, a.dv.at(block.b, block.kv), sizes.key_rows(block.first));
}

// dk and dv of the heads of keys that `stored` names.
template <class T, class Tile, class C = Compute<T>>
void run_key_kernel(const BackwardArguments<T>& arguments, const Sizes& sizes,
                    const StoredGradients<C>& stored) {
  launch(key_kernel<T, Tile>, tile_blocks(stored.items, sizes.keys, Tile::rows), threads,
         shared_bytes<Tile, C>, arguments, sizes, stored);
}

// How many heads of keys may have the gradients of their scores stored at once, divided evenly over
// as few calls as possible; 0 if even one head needs too much memory.
int64_t heads_at_once(const Sizes& sizes, int64_t pitch) {
  // 512 MiB, the workspace that cuDNN's deterministic backward is given as well.
  constexpr int64_t max_elements = int64_t{128} << 20;
  const int64_t heads = sizes.batch * sizes.kv_heads, head = sizes.group() * sizes.keys * pitch;
  if (heads == 0 || head == 0 || head > max_elements) return 0;
  return ceil_div(heads, ceil_div(heads, std::min(heads, max_elements / head)));
}

// The backward of f32 with stored gradients of scores, some heads at a time. False, with nothing
// written, if one head needs too much memory.
template <class Tile>
bool run_stored(const AttentionBackward& call, const BackwardArguments<float>& arguments,
                const Sizes& sizes) {
  const int64_t pitch = round_up(sizes.queries, 4);  // rows are copied 4 elements at a time
  const int64_t step = heads_at_once(sizes, pitch), heads = sizes.batch * sizes.kv_heads;
  if (step == 0) return false;
  const Tensor kept =
      Tensor::empty({step * sizes.group(), sizes.keys, pitch}, DType::f32, device());
  for (int64_t first = 0; first < heads; first += step) {
    const StoredGradients<float> stored{static_cast<float*>(kept.raw_data()), first,
                                        std::min(step, heads - first), pitch};
    run_key_kernel<float, Tile>(arguments, sizes, stored);
    attention_query_gradients(stored, call);
  }
  return true;
}

}  // namespace

void attention_backward(const AttentionBackward& call) {
  const Sizes sizes(call.q, call.k, call.causal);
  const memory::CategoryGuard guard(memory::Category::workspace);
  const Tensor delta_rows = Tensor::empty(call.lse.shape, call.lse.dtype, device());
  dispatch_floating("attention", call.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    C* const delta = static_cast<C*>(delta_rows.raw_data());
    const int64_t rows = sizes.batch * sizes.heads * sizes.queries;
    launch(delta_kernel<T>, static_cast<unsigned>(ceil_div<int64_t>(rows * warp_size, threads)),
           threads, 0, Heads<T>(call.dout), Heads<T>(call.out), sizes, delta);
    if (call.tf32 && attention_backward_tf32(call, delta_rows)) return;
    const BackwardArguments<T> arguments(call, delta);
    with_chunks(sizes.dim, [&](auto chunks) {
      using Tile = BackwardTile<C, decltype(chunks)::value>;
      if constexpr (std::is_same_v<T, float>)
        if (run_stored<Tile>(call, arguments, sizes)) return;
      launch(query_kernel<T, Tile>,
             tile_blocks(sizes.batch * sizes.heads, sizes.queries, Tile::rows), threads,
             shared_bytes<Tile, C>, arguments, sizes);
      run_key_kernel<T, Tile>(arguments, sizes,
                              StoredGradients<C>{nullptr, 0, sizes.batch * sizes.kv_heads, 0});
    });
  });
}

}  // namespace binade::backend::cuda::native
