#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "binade/backend/attention.h"
#include "binade/backend/cpu/attention/matmuls.h"
#include "binade/backend/cpu/attention/softmax.h"
#include "binade/backend/cpu/attention/tile.h"
#include "binade/backend/cpu/gemm/scratch.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"

// Attention works on tiles, each a block of queries times a block of keys. Results are stored
// transposed, [dim, queries] and [dim, keys], in panels of queries or keys. The forward's scores
// are [keys, queries]: softmaxes of several queries then run in the lanes of a vector. The
// backward's are [queries, keys]: two of its three matmuls with them sum over queries, and read
// them without a transpose. In a tile that the causal mask cuts, only the rows and columns that
// some panel needs are computed.
namespace binade::backend::cpu::attention {

// Large, because results are read and written once per block. Caches see only one panel of a block
// at a time. A query block is the next multiple of a panel's width.
inline constexpr int64_t min_query_block = 256;
inline constexpr int64_t key_block = 256;

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, dim;
  bool causal;
  int64_t window;
  TileMatmuls matmuls;
  int64_t query_block = matmuls.padded_columns(min_query_block);

  template <class Call>
  explicit Sizes(const Call& call)
      : batch(call.q.shape[0]),
        heads(call.q.shape[1]),
        kv_heads(call.k.shape[1]),
        queries(call.q.shape[2]),
        keys(call.k.shape[2]),
        dim(call.q.shape[3]),
        causal(call.causal),
        window(call.window > 0 ? call.window : Mask::no_window),
        matmuls(call.q.dtype) {}

  int64_t group() const { return kv_heads > 0 ? heads / kv_heads : 0; }
  int64_t query_blocks() const { return divide_up(queries, query_block); }
  int64_t key_blocks() const { return divide_up(keys, key_block); }

  // The mask of the tile at (query, key).
  Mask mask(int64_t query, int64_t key) const {
    return {causal ? query + keys - queries - key : key_block, window};
  }
  // The first key block that queries from `query` on see: earlier ones need not be read.
  int64_t first_key(int64_t query) const {
    return round_down(mask(query, 0).keys_before(0, keys), key_block);
  }
  // Keys in the block from `key` on.
  int64_t block_keys(int64_t key) const { return std::min(key_block, keys - key); }
  // How many keys the last of `count` queries from `query` on sees: later keys need not be read.
  int64_t visible_keys(int64_t query, int64_t count) const {
    return causal ? std::clamp<int64_t>(query + count + keys - queries, 0, keys) : keys;
  }

  // Rows that a panel of `rows` results needs memory for: complete micro-tiles when a matmul writes
  // it, complete groups when it is an operand.
  int64_t capacity(int64_t rows) const {
    const int64_t padded = std::max(matmuls.padded_rows(rows), matmuls.padded_columns(rows));
    return matmuls.padded_k({0, padded}).end;
  }
};

// Element (batch, head, row, 0) of [batch, heads, rows, dim].
inline int64_t row_offset(const TensorView& x, int64_t batch, int64_t head, int64_t row) {
  return batch * x.strides[0] + head * x.strides[1] + row * x.strides[2];
}

inline Tile tile_of(const TensorView& x, int64_t batch, int64_t head, int64_t row) {
  const int64_t offset = row_offset(x, batch, head, row);
  return {x.as<char>() + offset * static_cast<int64_t>(size_of(x.dtype)), x.dtype, x.strides[2]};
}

// `count` rows of a head from `first` on, in [batch, heads, rows, dim].
struct HeadRows {
  int64_t batch, head, first, count;
};

// Buffers that a thread keeps between calls.
struct AttentionScratch {
  struct Forward {
    ScratchBuffer keys, values, queries, scores, probabilities, out, statistics;
  };
  struct Backward {
    ScratchBuffer keys, values, keys_by_channel, queries, queries_by_channel, dout, dout_by_channel,
        scores, gradients, p, ds, ds_of_queries, ds_rows, dq, dk, dv, statistics;
  };
  Forward forward;
  Backward backward;
  ScratchBuffer columns;  // of store_columns
};

// This thread's.
AttentionScratch& attention_scratch();

// Stores the columns of panels [dim, width], times `factor`, as rows of y.
template <class T>
void store_columns(const T* panels, const Sizes& sizes, T factor, const TensorView& y,
                   const HeadRows& rows) {
  const int64_t dim = sizes.dim, width = sizes.matmuls.width(), capacity = sizes.capacity(dim);
  T* converted = attention_scratch().columns.get<T>(width * dim);
  for (int64_t j = 0; j < rows.count; j += width, panels += capacity * width) {
    const int64_t columns = std::min(width, rows.count - j),
                  to = row_offset(y, rows.batch, rows.head, rows.first + j);
    const auto write = [&]<class Out>(Out* out, int64_t ld_out) {
      transpose(Transpose<T, Out>{.rows = dim,
                                  .columns = columns,
                                  .factor = factor,
                                  .in = panels,
                                  .ld_in = width,
                                  .out = out,
                                  .ld_out = ld_out});
    };
    if (y.dtype == dtype_of<T>) {
      write(y.as<T>() + to, y.strides[2]);
      continue;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (sizes.matmuls.rounds()) {
        write(y.as<bf16>() + to, y.strides[2]);
        continue;
      }
    }
    write(converted, dim);
    for (int64_t i = 0; i < columns; ++i) store(converted + i * dim, y, to + i * y.strides[2], dim);
  }
}

// The blocks of one head's keys or values, each packed on first use and kept until the head
// changes: all blocks of queries read them.
class PackedKeys {
 public:
  PackedKeys(ScratchBuffer& buffer, int64_t bytes, int64_t count)
      : data_(buffer.get<char>(bytes * count)),
        bytes_(bytes),
        blocks_(static_cast<size_t>(count)) {}

  void forget() { std::fill(blocks_.begin(), blocks_.end(), PackedTile{}); }

  // pack(memory) packs the block.
  template <class Pack>
  PackedTile get(int64_t block, Pack&& pack) {
    PackedTile& tile = blocks_[static_cast<size_t>(block)];
    if (tile.data == nullptr) tile = pack(data_ + block * bytes_);
    return tile;
  }

 private:
  char* data_;
  int64_t bytes_;
  std::vector<PackedTile> blocks_;
};

// Blocks in the order first, last, second, last but one, ...: later blocks of a causal head cost
// more, so neighboring items of a thread cost about the same together.
inline int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

// Runs the items of several calls in parallel, count(i) of call i: body(work, i, item). A thread
// makes its `work` by make(i) when it comes to a call.
template <class Count, class Make, class Body>
void for_items(size_t calls, Count count, Make make, Body body) {
  std::vector<int64_t> first{0};
  for (size_t i = 0; i < calls; ++i) first.push_back(first.back() + count(i));
  parallel_for(first.back(), 1, [&](int64_t begin, int64_t end) {
    size_t call =
        static_cast<size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) -
        1;
    for (int64_t item = begin; item < end; ++call) {
      const int64_t stop = std::min(end, first[call + 1]);
      if (item == stop) continue;
      auto work = make(call);
      for (; item < stop; ++item) body(work, call, item - first[call]);
    }
  });
}

// The CPU's kernels. f32 matmuls never round to TF32.
void forward(const AttentionForward& call);
void backward(const AttentionBackward& call);
void forward_each(std::span<const AttentionForward> calls);
void backward_each(std::span<const AttentionBackward> calls);

// Sizes of each call.
template <class Call>
std::vector<Sizes> sizes_of(std::span<const Call> calls) {
  std::vector<Sizes> sizes;
  for (const Call& call : calls) sizes.emplace_back(call);
  return sizes;
}

}  // namespace binade::backend::cpu::attention
