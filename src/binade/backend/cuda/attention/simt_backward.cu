#include <algorithm>
#include <type_traits>

#include "binade/backend/cuda/attention/score_gradients.h"
#include "binade/backend/cuda/attention/simt.h"
#include "binade/backend/cuda/attention/tf32.h"
#include "binade/backend/cuda/attention/tile.cuh"
#include "binade/backend/cuda/common/block_reduce.cuh"
#include "binade/tensor/memory.h"

// Probabilities are recomputed from lse a tile at a time. One kernel sums dk and dv over (head,
// query), another dq over keys, each by one block in ascending order: no sum depends on timing.
namespace binade::backend::cuda::own {
namespace {

// Two tiles of rows stay in shared memory, two of columns change; 99 KiB in all at most.
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
  fetch<Tile, Tile::rows>(a.q, a.q.at(block.b, block.h), block.first, sizes.queries, sizes.dim,
                          query_tile);
  fetch<Tile, Tile::rows>(a.dout, a.dout.at(block.b, block.h), block.first, sizes.queries,
                          sizes.dim, dout_tile);
  fetch<Tile, Tile::columns>(a.v, values, 0, sizes.keys, sizes.dim, value_tile);
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
    __syncthreads();  // the values are there, and the keys before have been read
    fetch<Tile, Tile::columns>(a.k, keys, key, sizes.keys, sizes.dim, key_tile);
    if (seen) multiply_rows<Tile>(dout_tile, value_tile, sizes.depth(), gradients);
    wait_copies();
    __syncthreads();  // the keys are there, and the values have been read
    if (key + Tile::columns < block.keys)
      fetch<Tile, Tile::columns>(a.v, values, key + Tile::columns, sizes.keys, sizes.dim,
                                 value_tile);
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
  store_rows<Tile>(result, factor, a.dq.at(block.b, block.h), a.dq, block.first, sizes.queries,
                   sizes.dim);
}

// Calls f(i, j, statistic, hidden) for each of a thread's scores, whose rows are keys from `first`
// on; `hidden` where the query of column j, from `query` on, does not see the key of row i.
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

// Keeps what a thread has of the gradients of a head's scores.
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
// gradients of scores go to `stored` as well where it has room.
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
  fetch<Tile, Tile::rows>(a.k, a.k.at(block.b, block.kv), block.first, sizes.keys, sizes.dim,
                          key_tile);
  fetch<Tile, Tile::rows>(a.v, a.v.at(block.b, block.kv), block.first, sizes.keys, sizes.dim,
                          value_tile);
  typename Tile::Result dk = {}, dv = {};
  const int begin = sizes.first_query(block.first) / Tile::columns * Tile::columns;
  for (int h = block.kv * sizes.group(); h < (block.kv + 1) * sizes.group(); ++h) {
    const int64_t item = block.b * sizes.heads + h;
    const C* const lse = a.lse + item * sizes.queries;
    const C* const delta = a.delta + item * sizes.queries;
    for (int query = begin; query < sizes.queries; query += Tile::columns) {
      const ColumnMask<Tile> mask(sizes, block.first, query);
      __syncthreads();  // the columns before have been read
      fetch<Tile, Tile::columns>(a.q, a.q.at(block.b, h), query, sizes.queries, sizes.dim,
                                 query_tile);
      fetch<Tile, Tile::columns>(a.dout, a.dout.at(block.b, h), query, sizes.queries, sizes.dim,
                                 dout_tile);
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
  store_rows<Tile>(dk, scale, a.dk.at(block.b, block.kv), a.dk, block.first, sizes.keys, sizes.dim);
  store_rows<Tile>(dv, one, a.dv.at(block.b, block.kv), a.dv, block.first, sizes.keys, sizes.dim);
}

// dk and dv of the keys that `stored` names, which may keep the gradients of scores.
template <class T, class Tile, class C = Compute<T>>
void run_key_kernel(const BackwardArguments<T>& arguments, const Sizes& sizes,
                    const StoredGradients<C>& stored) {
  launch(key_kernel<T, Tile>, tile_blocks(stored.items, sizes.keys, Tile::rows), threads,
         shared_bytes<Tile, C>, arguments, sizes, stored);
}

// How many heads of keys may have the gradients of their scores kept at once, shared out evenly
// over as few calls as possible; 0 where already one head's are too many.
int64_t heads_at_once(const Sizes& sizes, int64_t pitch) {
  constexpr int64_t max_elements = int64_t{128} << 20;  // 512 MiB
  const int64_t heads = sizes.batch * sizes.kv_heads, head = sizes.group() * sizes.keys * pitch;
  if (heads == 0 || head == 0 || head > max_elements) return 0;
  return ceil_div(heads, ceil_div(heads, std::min(heads, max_elements / head)));
}

// All of a backward of f32 where the gradients of scores can be kept, some heads at a time.
template <class Tile>
bool run_stored(const BackwardArguments<float>& arguments, const Sizes& sizes, const TensorView& q,
                const TensorView& k, double scale, const TensorView& dq) {
  const int64_t pitch = (sizes.queries + 3) / 4 * int64_t{4};
  const int64_t step = heads_at_once(sizes, pitch), heads = sizes.batch * sizes.kv_heads;
  if (step == 0) return false;
  const Tensor kept =
      Tensor::empty({step * sizes.group(), sizes.keys, pitch}, DType::f32, device());
  for (int64_t first = 0; first < heads; first += step) {
    const StoredGradients<float> stored{static_cast<float*>(kept.raw_data()), first,
                                        std::min(step, heads - first), pitch};
    run_key_kernel<float, Tile>(arguments, sizes, stored);
    attention_query_gradients(stored, q, k, scale, sizes.causal, dq);
  }
  return true;
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
      if constexpr (std::is_same_v<T, float>)
        if (run_stored<Tile>(arguments, sizes, q, k, scale, dq)) return;
      launch(query_kernel<T, Tile>,
             tile_blocks(sizes.batch * sizes.heads, sizes.queries, Tile::rows), threads,
             shared_bytes<Tile, C>, arguments, sizes);
      run_key_kernel<T, Tile>(arguments, sizes,
                              StoredGradients<C>{nullptr, 0, sizes.batch * sizes.kv_heads, 0});
    });
  });
}

}  // namespace binade::backend::cuda::own
