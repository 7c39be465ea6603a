#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "binade/backend/attention.h"
#include "binade/backend/cpu/attention/products.h"
#include "binade/backend/cpu/attention/softmax.h"
#include "binade/backend/cpu/attention/tile.h"
#include "binade/backend/cpu/rows/dense_rows.h"

// How attention is cut: blocks of queries meet blocks of keys. Results lie transposed, [dim,
// queries] and [dim, keys], in panels of queries or keys. The forward's scores are [keys, queries]:
// softmaxes of several queries then run in the lanes of a vector. The backward's are [queries,
// keys]: two of its three products with them sum over queries, and take them as they lie. Of a tile
// that the causal mask cuts, only what some panel needs is computed.
namespace binade::backend::cpu::attention {

// Large, as results are added to once per block; what is in work at a time is a panel of a block.
inline constexpr int64_t least_query_block = 256;
inline constexpr int64_t key_block = 256;

inline int64_t blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, dim;
  bool causal;
  Products products;
  int64_t query_block = products.whole_columns(least_query_block);

  Sizes(const TensorView& q, const TensorView& k, bool causal)
      : batch(q.shape[0]),
        heads(q.shape[1]),
        kv_heads(k.shape[1]),
        queries(q.shape[2]),
        keys(k.shape[2]),
        dim(q.shape[3]),
        causal(causal),
        products(q.dtype) {}

  int64_t group() const { return kv_heads > 0 ? heads / kv_heads : 0; }
  int64_t query_blocks() const { return blocks(queries, query_block); }
  int64_t key_blocks() const { return blocks(keys, key_block); }

  // Query i of a tile at (query, key) sees keys j <= i + diagonal of it.
  Mask mask(int64_t query, int64_t key) const {
    return {causal ? query + keys - queries - key : key_block};
  }
  // Keys in the block from `key` on.
  int64_t block_keys(int64_t key) const { return std::min(key_block, keys - key); }
  // How many keys the last of `count` queries from `query` on sees: later ones need not be read.
  int64_t visible_keys(int64_t query, int64_t count) const {
    return causal ? std::clamp<int64_t>(query + count + keys - queries, 0, keys) : keys;
  }

  // Rows that a panel must have room for: of products, and of their results as operands.
  int64_t room(int64_t rows) const {
    const int64_t room = std::max(products.whole_rows(rows), products.whole_columns(rows));
    return products.whole_groups({0, room}).end;
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

// Stores `count` columns of panels [dim, width], times `factor`, as rows from `first` on.
template <class T>
void store_columns(const T* panels, const Sizes& sizes, int64_t count, T factor,
                   const TensorView& y, int64_t batch, int64_t head, int64_t first,
                   ScratchBuffer& scratch) {
  const int64_t dim = sizes.dim, width = sizes.products.width(), room = sizes.room(dim);
  T* rows = scratch.get<T>(width * dim);
  for (int64_t j = 0; j < count; j += width, panels += room * width) {
    const int64_t columns = std::min(width, count - j), to = row_offset(y, batch, head, first + j);
    if (y.dtype == dtype_of<T>) {
      transpose(dim, columns, factor, panels, width, y.as<T>() + to, y.strides[2]);
      continue;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (sizes.products.rounds()) {
        transpose(dim, columns, factor, panels, width, y.as<bf16>() + to, y.strides[2]);
        continue;
      }
    }
    transpose(dim, columns, factor, panels, width, rows, dim);
    for (int64_t i = 0; i < columns; ++i) store(rows + i * dim, y, to + i * y.strides[2], dim);
  }
}

// Operands made of the blocks of one head's keys, each packed when it is first asked for and kept
// until another head's turn: all blocks of queries meet them.
class KeyOperands {
 public:
  KeyOperands(ScratchBuffer& buffer, int64_t bytes, int64_t count)
      : data_(buffer.get<char>(bytes * count)),
        bytes_(bytes),
        operands_(static_cast<size_t>(count)) {}

  void forget() { std::fill(operands_.begin(), operands_.end(), Operand{}); }

  // pack(memory) makes the operand.
  template <class Pack>
  Operand get(int64_t block, Pack&& pack) {
    Operand& operand = operands_[static_cast<size_t>(block)];
    if (operand.data == nullptr) operand = pack(data_ + block * bytes_);
    return operand;
  }

 private:
  char* data_;
  int64_t bytes_;
  std::vector<Operand> operands_;
};

// A causal head's later blocks cost more: pairing early with late ones evens out what threads get.
inline int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

// All products here are f32's own, whatever tf32 allows.
void forward(TensorView q, TensorView k, TensorView v, double scale, bool causal, bool tf32,
             TensorView out, TensorView lse);
void backward(TensorView dout, TensorView q, TensorView k, TensorView v, TensorView out,
              TensorView lse, double scale, bool causal, bool tf32, TensorView dq, TensorView dk,
              TensorView dv);

}  // namespace binade::backend::cpu::attention
