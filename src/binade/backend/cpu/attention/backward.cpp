#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "binade/backend/cpu/attention/blocks.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu::attention {
namespace {

// The tensors of a backward call.
struct Gradients {
  const TensorView &dout, &q, &k, &v, &out, &lse;
  double scale;
  const TensorView &dq, &dk, &dv;
};

// A thread's own, kept between calls.
struct Scratch {
  ScratchBuffer keys, values, keys_by_channel, queries, queries_by_channel, dout, dout_by_channel,
      scores, gradients, p, ds, ds_of_queries, ds_rows, dq, dk, dv, rows, statistics;
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
        exponent_scale_(static_cast<T>(tensors.scale * std::numbers::log2e)),
        sizes_(sizes),
        keys_(scratch().keys, products_.right_bytes(key_block, sizes.dim), sizes.key_blocks()),
        values_(scratch().values, products_.right_bytes(key_block, sizes.dim), sizes.key_blocks()),
        keys_by_channel_(scratch().keys_by_channel, products_.left_bytes(sizes.dim, key_block),
                         sizes.key_blocks()),
        dk_(scratch().dk.get<T>(key_blocks * key_tile_)),
        dv_(scratch().dv.get<T>(key_blocks * key_tile_)) {}

  // All that the heads of kv_head say about dk and dv of the keys in `keys` (from a block's start),
  // and, where `with_queries`, their dq as well: then `keys` must be all of them.
  void keys(int64_t batch, int64_t kv_head, Span keys, bool with_queries) {
    const int64_t count = blocks(keys.end - keys.begin, key_block), group = sizes_.group();
    std::fill_n(dk_, count * key_tile_, T(0));
    std::fill_n(dv_, count * key_tile_, T(0));
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int64_t query = 0; query < sizes_.queries; query += sizes_.query_block)
        query_tile(batch, head, query, keys, with_queries, true);
    }
    for (int64_t block = 0; block < count; ++block) {
      const int64_t first = keys.begin + block * key_block,
                    width = std::min(key_block, keys.end - first);
      store_columns(dk_ + block * key_tile_, sizes_, width, scale_, tensors_.dk, batch, kv_head,
                    first, scratch().rows);
      store_columns(dv_ + block * key_tile_, sizes_, width, T(1), tensors_.dv, batch, kv_head,
                    first, scratch().rows);
    }
  }

  // dq of the block of queries from `query` on.
  void queries(int64_t batch, int64_t head, int64_t query) {
    query_tile(batch, head, query, {0, sizes_.keys}, true, false);
  }

 private:
  // How much of a tile there is, and who sees what.
  struct Cut {
    int64_t keys, queries;
    Mask mask;
  };

  void query_tile(int64_t batch, int64_t head, int64_t query, Span keys, bool with_queries,
                  bool with_keys) {
    const int64_t count = std::min(sizes_.query_block, sizes_.queries - query);
    const int64_t visible = std::min(keys.end, sizes_.visible_keys(query, count));
    if (visible > keys.begin) load_queries(batch, head, query, count, with_keys);
    select_head(batch, head / sizes_.group());
    if (visible <= keys.begin) std::fill_n(dq_, query_tile_, T(0));
    for (int64_t key = keys.begin; key < visible; key += key_block) {
      const Cut cut{std::min(key_block, visible - key), count, sizes_.mask(query, key)};
      recompute(key, cut, with_queries, with_keys);
      if (with_keys) add_to_keys((key - keys.begin) / key_block * key_tile_, cut);
      if (with_queries) add_to_queries(key, cut, key > keys.begin);
    }
    if (!with_queries) return;
    store_columns(dq_, sizes_, count, scale_, tensors_.dq, batch, head, query, scratch().rows);
  }

  void select_head(int64_t batch, int64_t kv_head) {
    if (batch == batch_ && kv_head == kv_head_) return;
    batch_ = batch;
    kv_head_ = kv_head;
    for (KeyOperands* operands : {&keys_, &values_, &keys_by_channel_}) operands->forget();
  }

  void load_queries(int64_t batch, int64_t head, int64_t query, int64_t count, bool with_keys) {
    const int64_t dim = sizes_.dim;
    const Tile q = tile_of(tensors_.q, batch, head, query),
               dout = tile_of(tensors_.dout, batch, head, query);
    find_delta(dout, tile_of(tensors_.out, batch, head, query), count);
    queries_ = products_.pack_left(q.rows(), count, dim, packed_queries_);
    dout_ = products_.pack_left(dout.rows(), count, dim, packed_dout_);
    if (with_keys) {
      queries_by_channel_ =
          products_.pack_left(q.columns(), dim, count, packed_queries_by_channel_);
      dout_by_channel_ = products_.pack_left(dout.columns(), dim, count, packed_dout_by_channel_);
    }
    const int64_t first = (batch * sizes_.heads + head) * sizes_.queries + query;
    const T* lse = load(tensors_.lse, first, count, lse_);
    for (int64_t i = 0; i < count; ++i) {
      // NaN as rounding to bf16 wants it.
      lse_[i] = std::isnan(lse[i]) ? std::numeric_limits<T>::quiet_NaN()
                                   : lse[i] * std::numbers::log2e_v<T>;
    }
  }

  // The sums of dout * out, which have one type.
  void find_delta(const Tile& dout, const Tile& out, int64_t count) {
    dispatch(dout.dtype, [&](auto tag) {
      using In = typename decltype(tag)::type;
      if constexpr (is_compute(dtype_of<In>) &&
                    (dtype_of<In> == DType::f64) == std::is_same_v<T, double>) {
        row_dots(count, sizes_.dim, static_cast<const In*>(dout.data), dout.ld,
                 static_cast<const In*>(out.data), out.ld, delta_);
      }
    });
  }

  // Queries that see some key of a panel.
  Span seeing(int64_t panel, const Cut& cut) const {
    return {cut.mask.first_query(panel * width_, cut.queries), cut.queries};
  }
  // Keys that some query of a panel sees.
  int64_t seen(int64_t panel, const Cut& cut) const {
    return cut.mask.keys_seen((panel + 1) * width_, cut.keys);
  }

  // Makes the operands of the tile's probabilities and of the gradients of its scores.
  void recompute(int64_t key, const Cut& cut, bool with_queries, bool with_keys) {
    const int64_t dim = sizes_.dim, block = key / key_block;
    const Operand keys = keys_.get(block, [&](void* to) {
      return products_.pack_right(tile_of(tensors_.k, batch_, kv_head_, key).rows(),
                                  sizes_.block_keys(key), dim, to);
    });
    const Operand values = values_.get(block, [&](void* to) {
      return products_.pack_right(tile_of(tensors_.v, batch_, kv_head_, key).rows(),
                                  sizes_.block_keys(key), dim, to);
    });
    // Each panel goes all the way while it is in the nearest cache.
    products_.for_panels(cut.keys, [&](int64_t panel) {
      const Part part{seeing(panel, cut), {0, dim}};
      const int64_t first = products_.rounds() ? 0 : panel * width_ * score_room_;
      products_.multiply_panel(panel, part, queries_, keys, scores_ + first, false);
      products_.multiply_panel(panel, part, dout_, values, gradients_ + first, false);
      if (products_.rounds()) {
        round_gradients(panel, cut, with_queries, with_keys);
      } else {
        softmax_gradient(cut.queries, width_, cut.mask.from(0, panel * width_), exponent_scale_,
                         scores_ + first, gradients_ + first, lse_, delta_);
      }
    });
    if (!products_.rounds()) {
      p_ = {scores_, score_room_};
      ds_ = {gradients_, score_room_};
      if (with_queries) transpose_gradients({gradients_, dtype_of<T>, score_room_}, cut);
      return;
    }
    p_ = {rounded_p_, score_room_};
    ds_ = {rounded_ds_, score_room_};
    if (!with_queries) return;
    if (gradients_in_rows_) {
      transpose_gradients({ds_rows_, DType::bf16, score_room_}, cut);
    } else {
      ds_of_queries_ = {packed_ds_of_queries_, products_.whole_columns(cut.keys)};
    }
  }

  // Of one panel, where operands are bf16.
  void round_gradients(int64_t panel, const Cut& cut, bool with_queries, bool with_keys) {
    if constexpr (std::is_same_v<T, float>) {
      const int64_t at = panel * width_, first = at * score_room_;
      const Span queries = products_.whole_groups(seeing(panel, cut));
      bf16* of_queries = gradients_in_rows_
                             ? ds_rows_ + first
                             : static_cast<bf16*>(packed_ds_of_queries_) + at * width_;
      const RoundedGradients to{// A panel of queries some of which see a key is read whole.
                                .begin = queries.begin / width_ * width_,
                                .end = queries.end,
                                .columns = std::min(width_, cut.keys - at),
                                .group = products_.right_group(),
                                .p = with_keys ? rounded_p_ + first : nullptr,
                                .ds = rounded_ds_ + first,
                                .ds_of_queries = with_queries ? of_queries : nullptr,
                                .query_panel = products_.whole_columns(cut.keys) * width_};
      softmax_gradient(cut.queries, width_, cut.mask.from(0, at), exponent_scale_, scores_,
                       gradients_, lse_, delta_, to);
    }
  }

  void transpose_gradients(const Panels& ds, const Cut& cut) {
    ds_of_queries_ = products_.transposed(ds, cut.queries, cut.keys, packed_ds_of_queries_,
                                          [&](int64_t panel) { return seen(panel, cut); });
  }

  void add_to_keys(int64_t offset, const Cut& cut) {
    const auto part = [&](int64_t panel) { return Part{{0, sizes_.dim}, seeing(panel, cut)}; };
    products_.multiply(cut.keys, dout_by_channel_, p_, dv_ + offset, room_, true, part);
    products_.multiply(cut.keys, queries_by_channel_, ds_, dk_ + offset, room_, true, part);
  }

  void add_to_queries(int64_t key, const Cut& cut, bool accumulate) {
    const Operand keys = keys_by_channel_.get(key / key_block, [&](void* to) {
      return products_.pack_left(tile_of(tensors_.k, batch_, kv_head_, key).columns(), sizes_.dim,
                                 sizes_.block_keys(key), to);
    });
    products_.multiply(cut.queries, keys, ds_of_queries_, dq_, room_, accumulate,
                       [&](int64_t panel) {
                         return Part{{0, sizes_.dim}, {0, seen(panel, cut)}};
                       });
  }

  const Gradients& tensors_;
  const T scale_;
  const T exponent_scale_;  // of exponents of 2
  const Sizes& sizes_;
  const Products& products_ = sizes_.products;
  const int64_t width_ = products_.width(), room_ = sizes_.room(sizes_.dim);
  const int64_t score_room_ = sizes_.room(sizes_.query_block);
  const int64_t key_tile_ = products_.whole_columns(key_block) * room_;  // of dk, and of dv
  const int64_t query_tile_ = products_.whole_columns(sizes_.query_block) * room_;  // of dq
  int64_t batch_ = -1, kv_head_ = -1;

  KeyOperands keys_, values_;                         // right, lines are keys
  KeyOperands keys_by_channel_;                       // left, lines are channels
  Operand queries_{}, dout_{};                        // left, lines are queries
  Operand queries_by_channel_{}, dout_by_channel_{};  // left, lines are channels
  Operand p_{}, ds_{};                                // of a tile; right, lines are keys
  Operand ds_of_queries_{};                           // right, lines are queries
  T *dk_, *dv_;  // of the range of keys in work, block by block
  const int64_t query_bytes_ = products_.left_bytes(sizes_.query_block, sizes_.dim),
                channel_bytes_ = products_.left_bytes(sizes_.dim, sizes_.query_block);
  char* packed_queries_ = scratch().queries.get<char>(query_bytes_);
  char* packed_dout_ = scratch().dout.get<char>(query_bytes_);
  char* packed_queries_by_channel_ = scratch().queries_by_channel.get<char>(channel_bytes_);
  char* packed_dout_by_channel_ = scratch().dout_by_channel.get<char>(channel_bytes_);
  const int64_t tile_ = products_.whole_columns(key_block) * score_room_,
                rounded_ = products_.rounds() ? tile_ : 0;
  // Of a whole tile where they are operands, else of the panel in work.
  const int64_t results_ = products_.rounds() ? width_ * score_room_ : tile_;
  T* scores_ = scratch().scores.get<T>(results_);
  T* gradients_ = scratch().gradients.get<T>(results_);
  bf16* rounded_p_ = scratch().p.get<bf16>(rounded_);
  bf16* rounded_ds_ = scratch().ds.get<bf16>(rounded_);
  bf16* ds_rows_ = scratch().ds_rows.get<bf16>(rounded_);
  // Packing then makes the operand whose lines are queries.
  const bool gradients_in_rows_ = products_.right_group() == 2;
  void* packed_ds_of_queries_ = scratch().ds_of_queries.get<char>(
      products_.right_bytes(sizes_.query_block, products_.whole_columns(key_block)));
  T* dq_ = scratch().dq.get<T>(query_tile_);
  T* lse_ = scratch().statistics.get<T>(2 * sizes_.query_block);
  T* delta_ = lse_ + sizes_.query_block;
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
