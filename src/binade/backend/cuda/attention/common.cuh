#pragma once

#include <initializer_list>
#include <type_traits>

#include "binade/backend/attention.h"
#include "binade/backend/cuda/common/async_copy.cuh"
#include "binade/backend/cuda/common/launch.cuh"
#include "binade/backend/cuda/common/pack.cuh"

// Shared by all attention kernels: arguments, masks, and tiles of rows in shared memory.
namespace binade::backend::cuda::native {

// Distance of a tile's rows: 16 bytes more than their length, so that adjacent rows start in
// different banks and stay aligned.
template <class C>
__host__ __device__ constexpr int pitch_of(int columns) {
  return columns + 16 / static_cast<int>(sizeof(C));
}

// Tensors of heads [batch, heads, rows, dim].
template <class T>
struct Heads {
  T* data;
  int64_t batch, head, row;  // strides
  bool packed;               // rows can be read and written 16 bytes at a time

  explicit Heads(const TensorView& x)
      : data(x.as<T>()),
        batch(x.strides[0]),
        head(x.strides[1]),
        row(x.strides[2]),
        packed(packs_fit<T, 16 / sizeof(T)>(x.data)) {
    for (const int64_t length : {batch, head, row, x.shape[3]})
      packed = packed && length % static_cast<int64_t>(16 / sizeof(T)) == 0;
  }
  __device__ T* at(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

// The rows of a head from `first` up to `end`, `dim` elements each.
struct RowRange {
  int first, end, dim;
};

struct Sizes {
  int64_t batch;
  int heads, kv_heads, queries, keys, dim;
  bool causal;

  Sizes(const TensorView& q, const TensorView& k, bool causal)
      : batch(q.shape[0]),
        heads(static_cast<int>(q.shape[1])),
        kv_heads(static_cast<int>(k.shape[1])),
        queries(static_cast<int>(q.shape[2])),
        keys(static_cast<int>(k.shape[2])),
        dim(static_cast<int>(q.shape[3])),
        causal(causal) {}

  BINADE_HD int group() const { return heads / kv_heads; }
  // Dot products take four elements of a head at a time; tiles hold zeros past its end.
  BINADE_HD int depth() const { return ceil_div(dim, 4) * 4; }
  BINADE_HD RowRange query_rows(int first) const { return {first, queries, dim}; }
  BINADE_HD RowRange key_rows(int first) const { return {first, keys, dim}; }
  // How many keys a query sees.
  BINADE_HD int visible_keys(int query) const {
    if (!causal) return keys;
    const int64_t seen = int64_t{query} + 1 + keys - queries;
    return seen < 0 ? 0 : seen < keys ? static_cast<int>(seen) : keys;
  }
  // The first query that sees a key.
  BINADE_HD int first_query(int key) const {
    const int64_t first = causal ? int64_t{key} + queries - keys : 0;
    return first < 0 ? 0 : static_cast<int>(first);
  }
};

__device__ inline float exponential(float x) { return __expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

// A tile of `Rows` queries of one head. Later queries see more keys, so tile 0 has the last ones:
// the longest tiles start first.
struct QueryTile {
  int64_t item, b;  // item: b and h in one index
  int h, kv, first;
  int keys;  // seen by at least one of its queries

  template <int Rows>
  static __device__ QueryTile at(const Sizes& sizes, int index, int64_t item) {
    QueryTile tile;
    tile.item = item;
    tile.b = item / sizes.heads;
    tile.h = static_cast<int>(item % sizes.heads);
    tile.kv = tile.h / sizes.group();
    tile.first = (ceil_div(sizes.queries, Rows) - 1 - index) * Rows;
    tile.keys = sizes.visible_keys(min(tile.first + Rows, sizes.queries) - 1);
    return tile;
  }
};

// A tile of `Rows` keys of one head of keys. Earlier keys are seen by more queries, so they come
// first.
struct KeyTile {
  int64_t item, b;  // item: b and kv in one index
  int kv, first;

  template <int Rows>
  static __device__ KeyTile at(const Sizes& sizes, int index, int64_t item) {
    return {item, item / sizes.kv_heads, static_cast<int>(item % sizes.kv_heads), index * Rows};
  }
};

// The first row of this warp: a block's rows are divided among its four warps.
template <class Tile>
__device__ inline int warp_row() {
  return threadIdx.x / warp_size * Tile::warp_rows;
}

// How many keys the warp's rows, queries from `first` on, see.
template <class Tile>
struct RowMask {
  int keys, keys_of_all;  // seen by some row, seen by every row

  __device__ RowMask(const Sizes& sizes, int first) {
    const int row = first + warp_row<Tile>();
    const int last = min(row + Tile::warp_rows, sizes.queries) - 1;
    keys = row <= last ? sizes.visible_keys(last) : 0;
    keys_of_all = sizes.visible_keys(row);
  }
};

// Whether the queries of a tile of columns see some or all of the warp's rows, keys from `first`
// on.
template <class Tile>
struct ColumnMask {
  bool some, all;

  __device__ ColumnMask(const Sizes& sizes, int first, int query) {
    const int key = first + warp_row<Tile>(), end = query + Tile::columns;
    some = key < sizes.visible_keys(min(end, sizes.queries) - 1);
    all = end <= sizes.queries && key + Tile::warp_rows <= sizes.visible_keys(query);
  }
  // How many keys the query of a column sees; all keys if the mask hides none of the tile.
  __device__ int visible(const Sizes& sizes, int column) const {
    return all ? sizes.keys : column < sizes.queries ? sizes.visible_keys(column) : 0;
  }
};

// Blocks for all tiles of `rows` rows out of `count` of so many heads.
inline unsigned tile_blocks(int64_t heads, int count, int rows) {
  return static_cast<unsigned>(heads * ceil_div<int64_t>(count, rows));
}

// Arguments of the forward kernels.
template <class T, class C = Compute<T>>
struct ForwardArguments {
  Heads<T> q, k, v, out;
  C* lse;
  C scale;

  explicit ForwardArguments(const AttentionForward& call)
      : q(call.q),
        k(call.k),
        v(call.v),
        out(call.out),
        lse(call.lse.as<C>()),
        scale(static_cast<C>(call.scale)) {}
};

// Arguments of the backward kernels.
template <class T, class C = Compute<T>>
struct BackwardArguments {
  Heads<T> dout, q, k, v, dq, dk, dv;
  const C *lse, *delta;  // delta: the sum of dout * out over each row
  C scale;

  BackwardArguments(const AttentionBackward& call, const C* delta)
      : dout(call.dout),
        q(call.q),
        k(call.k),
        v(call.v),
        dq(call.dq),
        dk(call.dk),
        dv(call.dv),
        lse(call.lse.as<C>()),
        delta(delta),
        scale(static_cast<C>(call.scale)) {}
};

// Starts copying `Rows` rows of a head into a tile, widened to C; elements outside `range` become
// 0. The copies are complete after a thread's wait_copies() and, for other threads, a barrier.
template <int Rows, int Dim, int Threads, class T, class C>
__device__ inline void fetch_rows(const Heads<T>& x, const T* head, RowRange range, C* tile) {
  const auto [first, end, dim] = range;
  constexpr int pitch = pitch_of<C>(Dim), N = 16 / sizeof(T), packs = Dim / N;
  if (!x.packed) {
    for (int i = threadIdx.x; i < Rows * Dim; i += Threads) {
      const int row = i / Dim, column = i % Dim;
      const bool inside = first + row < end && column < dim;
      tile[row * pitch + column] =
          inside ? static_cast<C>(head[(first + row) * x.row + column]) : C(0);
    }
    return;
  }
#pragma unroll 4
  for (int i = threadIdx.x; i < Rows * packs; i += Threads) {
    const int row = i / packs, column = i % packs * N;
    const bool inside = first + row < end && column < dim;
    const T* from = inside ? head + (first + row) * x.row + column : head;
    C* to = tile + row * pitch + column;
    if constexpr (std::is_same_v<T, C>) {
      copy_async(to, from, inside);
    } else {
      Pack<C, N> wide{};
      if (inside) {
        const auto pack = load_pack<T, N>(from);
#pragma unroll
        for (int n = 0; n < N; ++n) wide[n] = static_cast<C>(pack[n]);
      }
      store_pack(to, wide);
    }
  }
}

template <class C>
__device__ inline C* shared_memory() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<C*>(bytes);
}

}  // namespace binade::backend::cuda::native
