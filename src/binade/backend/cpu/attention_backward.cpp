#include "binade/backend/cpu/attention_blocks.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu::attention {
namespace {

struct Range {
  int64_t begin, end;
};

// The tensors of a backward call.
struct Gradients {
  const TensorView &dout, &q, &k, &v, &out, &lse;
  double scale;
  const TensorView &dq, &dk, &dv;
};

// A thread's own, kept between calls.
struct Scratch {
  ScratchBuffer keys, values, keys_by_channel, queries, queries_by_channel, dout, dout_by_channel,
      scores, gradients, rounded_scores, rounded_gradients, right, dq, dk, dv, rows, rows_of_dout,
      statistics;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

// Recomputes tiles of probabilities from lse and sums gradients. A key's gradient sums over (head,
// query) and a query's over keys, both ascending by whole blocks: the same bits however the blocks
// are shared out.
template <class T>
class Backward {
 public:
  // Sums for `key_blocks` blocks of keys at a time.
  Backward(const Gradients& tensors, const Sizes& sizes, int64_t key_blocks)
      : tensors_(tensors),
        scale_(static_cast<T>(tensors.scale)),
        sizes_(sizes),
        keys_(scratch().keys, products_.left_bytes(key_block, sizes.dim), sizes.key_blocks()),
        values_(scratch().values, products_.left_bytes(key_block, sizes.dim), sizes.key_blocks()),
        keys_by_channel_(scratch().keys_by_channel, products_.left_bytes(sizes.dim, key_block),
                         sizes.key_blocks()),
        dk_(scratch().dk.get<T>(key_blocks * key_tile_)),
        dv_(scratch().dv.get<T>(key_blocks * key_tile_)) {}

  // All that the heads of kv_head say about dk and dv of the keys in `keys` (from a block's start),
  // and, where `with_queries`, their dq as well: then `keys` must be all of them.
  void keys(int64_t batch, int64_t kv_head, Range keys, bool with_queries) {
    const int64_t count = blocks(keys.end - keys.begin, key_block), group = sizes_.group();
    std::fill_n(dk_, count * key_tile_, T(0));
    std::fill_n(dv_, count * key_tile_, T(0));
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int64_t query = 0; query < sizes_.queries; query += sizes_.query_block)
        query_tile(batch, head, query, keys, with_queries, true);
    }
    for (int64_t i = 0; i < count * key_tile_; ++i) dk_[i] *= scale_;
    for (int64_t block = 0; block < count; ++block) {
      const int64_t first = keys.begin + block * key_block,
                    width = std::min(key_block, keys.end - first);
      store_columns(dk_ + block * key_tile_, ld_keys_, width, tensors_.dk, batch, kv_head, first,
                    scratch().rows);
      store_columns(dv_ + block * key_tile_, ld_keys_, width, tensors_.dv, batch, kv_head, first,
                    scratch().rows);
    }
  }

  // dq of the block of queries from `query` on.
  void queries(int64_t batch, int64_t head, int64_t query) {
    query_tile(batch, head, query, {0, sizes_.keys}, true, false);
  }

 private:
  void query_tile(int64_t batch, int64_t head, int64_t query, Range keys, bool with_queries,
                  bool with_keys) {
    const int64_t count = std::min(sizes_.query_block, sizes_.queries - query);
    const int64_t visible = std::min(keys.end, sizes_.visible_keys(query, count));
    if (visible > keys.begin) load_queries(batch, head, query, count, with_keys);
    aim(batch, head / sizes_.group());
    std::fill_n(dq_, sizes_.dim * ld_, T(0));
    for (int64_t key = keys.begin; key < visible; key += key_block) {
      const int64_t width = std::min(key_block, visible - key);
      recompute(key, width, count, sizes_.mask(query, key));
      const Tile ds =
          products_.as_operand(gradients_, width, count, ld_, scratch().rounded_gradients);
      if (with_keys) add_to_keys((key - keys.begin) / key_block * key_tile_, width, count, ds);
      if (with_queries) add_to_queries(key, width, count, ds);
    }
    if (!with_queries) return;
    for (int64_t i = 0; i < sizes_.dim * ld_; ++i) dq_[i] *= scale_;
    store_columns(dq_, ld_, count, tensors_.dq, batch, head, query, scratch().rows);
  }

  void aim(int64_t batch, int64_t kv_head) {
    if (batch == batch_ && kv_head == kv_head_) return;
    batch_ = batch;
    kv_head_ = kv_head;
    for (KeyOperands* operands : {&keys_, &values_, &keys_by_channel_}) operands->forget();
  }

  void load_queries(int64_t batch, int64_t head, int64_t query, int64_t count, bool with_keys) {
    const int64_t dim = sizes_.dim, ld_rows = padded<T>(dim);
    const Tile q = tile_of(tensors_.q, batch, head, query),
               dout = tile_of(tensors_.dout, batch, head, query);
    queries_ = products_.pack_right(q.rows(), count, dim, packed_queries_);
    dout_ = products_.pack_right(dout.rows(), count, dim, packed_dout_);
    if (with_keys) {
      queries_by_channel_ =
          products_.pack_left(q.columns(), dim, count, packed_queries_by_channel_);
      dout_by_channel_ = products_.pack_left(dout.columns(), dim, count, packed_dout_by_channel_);
    }
    T* out_row = scratch().rows.get<T>(ld_rows);
    T* dout_row = scratch().rows_of_dout.get<T>(ld_rows);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = query + i;
      delta_[i] =
          dot(load(tensors_.dout, row_offset(tensors_.dout, batch, head, row), dim, dout_row),
              load(tensors_.out, row_offset(tensors_.out, batch, head, row), dim, out_row), dim);
    }
    const int64_t first = (batch * sizes_.heads + head) * sizes_.queries + query;
    std::copy_n(load(tensors_.lse, first, count, lse_), count, lse_);
  }

  // The tile's probabilities into scores_, the gradients of its scores into gradients_.
  void recompute(int64_t key, int64_t width, int64_t count, TileMask mask) {
    const int64_t dim = sizes_.dim, block = key / key_block;
    const Operand keys = keys_.get(block, [&](void* to) {
      return products_.pack_left(tile_of(tensors_.k, batch_, kv_head_, key).rows(),
                                 sizes_.block_keys(key), dim, to);
    });
    const Operand values = values_.get(block, [&](void* to) {
      return products_.pack_left(tile_of(tensors_.v, batch_, kv_head_, key).rows(),
                                 sizes_.block_keys(key), dim, to);
    });
    products_.multiply(width, count, dim, keys, queries_, scores_, ld_, false);
    products_.multiply(width, count, dim, values, dout_, gradients_, ld_, false);
    softmax_gradient(width, count, mask, scale_, scores_, gradients_, ld_, lse_, delta_);
  }

  void add_to_keys(int64_t offset, int64_t width, int64_t count, const Tile& ds) {
    const int64_t dim = sizes_.dim;
    const Tile p = products_.as_operand(scores_, width, count, ld_, scratch().rounded_scores);
    products_.multiply(dim, width, count, dout_by_channel_,
                       products_.pack_right(p.rows(), width, count, packed_tile_), dv_ + offset,
                       ld_keys_, true);
    products_.multiply(dim, width, count, queries_by_channel_,
                       products_.pack_right(ds.rows(), width, count, packed_tile_), dk_ + offset,
                       ld_keys_, true);
  }

  void add_to_queries(int64_t key, int64_t width, int64_t count, const Tile& ds) {
    const Operand keys = keys_by_channel_.get(key / key_block, [&](void* to) {
      return products_.pack_left(tile_of(tensors_.k, batch_, kv_head_, key).columns(), sizes_.dim,
                                 sizes_.block_keys(key), to);
    });
    products_.multiply(sizes_.dim, count, width, keys,
                       products_.pack_right(ds.columns(), count, width, packed_tile_), dq_, ld_,
                       true);
  }

  const Gradients& tensors_;
  const T scale_;
  const Sizes& sizes_;
  const Products& products_ = sizes_.products;
  const int64_t ld_ = sizes_.ld_queries<T>(), ld_keys_ = sizes_.ld_keys<T>();
  const int64_t key_tile_ = products_.whole_rows(sizes_.dim) * ld_keys_;  // of dk, and of dv
  int64_t batch_ = -1, kv_head_ = -1;

  KeyOperands keys_, values_;                         // left, lines are keys
  KeyOperands keys_by_channel_;                       // left, lines are channels
  Operand queries_{}, dout_{};                        // right, lines are queries
  Operand queries_by_channel_{}, dout_by_channel_{};  // left, lines are channels
  T *dk_, *dv_;  // of the range of keys in work, block by block
  const int64_t right_bytes_ = products_.right_bytes(sizes_.query_block, sizes_.dim),
                left_bytes_ = products_.left_bytes(sizes_.dim, sizes_.query_block);
  char* packed_queries_ = scratch().queries.get<char>(right_bytes_);
  char* packed_dout_ = scratch().dout.get<char>(right_bytes_);
  char* packed_queries_by_channel_ = scratch().queries_by_channel.get<char>(left_bytes_);
  char* packed_dout_by_channel_ = scratch().dout_by_channel.get<char>(left_bytes_);
  char* packed_tile_ =
      scratch().right.get<char>(std::max(products_.right_bytes(sizes_.query_block, key_block),
                                         products_.right_bytes(key_block, sizes_.query_block)));
  T* scores_ = scratch().scores.get<T>(products_.whole_rows(key_block) * ld_);
  T* gradients_ = scratch().gradients.get<T>(products_.whole_rows(key_block) * ld_);
  T* dq_ = scratch().dq.get<T>(products_.whole_rows(sizes_.dim) * ld_);
  T* lse_ = scratch().statistics.get<T>(2 * ld_);
  T* delta_ = lse_ + ld_;
};

// One pass costs 5 products a tile and splits into batch * kv_heads parts; two passes, one for keys
// and one for queries, cost 7 and split into as many parts as there are blocks. Bits are the same.
bool one_pass(const Sizes& sizes) {
  const int64_t parts = sizes.batch * sizes.kv_heads;
  const int64_t rounds = blocks(parts, threads());
  return 5 * rounds * threads() <= 7 * parts;
}

template <class T>
void backward_one_pass(const Gradients& tensors, const Sizes& sizes) {
  parallel_for(sizes.batch * sizes.kv_heads, 1, [&](int64_t begin, int64_t end) {
    Backward<T> work(tensors, sizes, sizes.key_blocks());
    for (int64_t item = begin; item < end; ++item)
      work.keys(item / sizes.kv_heads, item % sizes.kv_heads, {0, sizes.keys}, true);
  });
}

template <class T>
void backward_two_passes(const Gradients& tensors, const Sizes& sizes) {
  const int64_t key_blocks = sizes.key_blocks();
  parallel_for(sizes.batch * sizes.kv_heads * key_blocks, 1, [&](int64_t begin, int64_t end) {
    Backward<T> work(tensors, sizes, 1);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / key_blocks,
                    key = balanced(item % key_blocks, key_blocks) * key_block;
      work.keys(head / sizes.kv_heads, head % sizes.kv_heads,
                {key, std::min(key + key_block, sizes.keys)}, false);
    }
  });
  const int64_t query_blocks = sizes.query_blocks();
  parallel_for(sizes.batch * sizes.heads * query_blocks, 1, [&](int64_t begin, int64_t end) {
    Backward<T> work(tensors, sizes, 0);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / query_blocks;
      work.queries(head / sizes.heads, head % sizes.heads,
                   balanced(item % query_blocks, query_blocks) * sizes.query_block);
    }
  });
}

}  // namespace

void backward(TensorView dout, TensorView q, TensorView k, TensorView v, TensorView out,
              TensorView lse, double scale, bool causal, bool /*tf32*/, TensorView dq,
              TensorView dk, TensorView dv) {
  const Sizes sizes(q, k, causal);
  const Gradients tensors{dout, q, k, v, out, lse, scale, dq, dk, dv};
  with_compute_type("attention", q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (one_pass(sizes)) {
      backward_one_pass<T>(tensors, sizes);
    } else {
      backward_two_passes<T>(tensors, sizes);
    }
  });
}

}  // namespace binade::backend::cpu::attention
