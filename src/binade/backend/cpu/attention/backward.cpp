#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "binade/backend/cpu/attention/blocks.h"
#include "binade/backend/cpu/attention/scores.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu::attention {
namespace {

AttentionScratch::Backward& backward_scratch() { return attention_scratch().backward; }

// The gradients that a pass computes.
struct Outputs {
  bool dq = false;
  bool dk_dv = false;
};

// Recomputes tiles of probabilities from lse and sums gradients. A key's gradient sums over (head,
// query) and a query's over keys, both block by block in ascending order: bits do not depend on
// which thread computes which block.
template <class T>
class Backward {
 public:
  // Sums for `key_blocks` blocks of keys at a time.
  Backward(const AttentionBackward& call, const Sizes& sizes, int64_t key_blocks)
      : call_(call),
        scale_(static_cast<T>(call.scale)),
        softcap_(Softcap<T>::of(call)),
        exponent_scale_(static_cast<T>((call.softcap > 0 ? 1 : call.scale) * std::numbers::log2e)),
        sizes_(sizes),
        keys_(backward_scratch().keys, matmuls_.right_bytes(key_block, sizes.dim),
              sizes.key_blocks()),
        values_(backward_scratch().values, matmuls_.right_bytes(key_block, sizes.dim),
                sizes.key_blocks()),
        keys_by_channel_(backward_scratch().keys_by_channel,
                         matmuls_.left_bytes(sizes.dim, key_block), sizes.key_blocks()),
        dk_(backward_scratch().dk.get<T>(key_blocks * key_tile_)),
        dv_(backward_scratch().dv.get<T>(key_blocks * key_tile_)) {}

  // dk and dv of the keys in `keys` (from a block's start), summed over the heads that read
  // kv_head. With `outputs.dq`, `keys` must be all keys.
  void keys(int64_t batch, int64_t kv_head, Span keys, Outputs outputs) {
    const int64_t count = divide_up(keys.end - keys.begin, key_block), group = sizes_.group();
    std::fill_n(dk_, count * key_tile_, T(0));
    std::fill_n(dv_, count * key_tile_, T(0));
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int64_t query = 0; query < sizes_.queries; query += sizes_.query_block)
        query_tile(batch, head, query, keys, outputs);
    }
    for (int64_t block = 0; block < count; ++block) {
      const int64_t first = keys.begin + block * key_block;
      const HeadRows rows{batch, kv_head, first, std::min(key_block, keys.end - first)};
      store_columns(dk_ + block * key_tile_, sizes_, scale_, call_.dk, rows);
      store_columns(dv_ + block * key_tile_, sizes_, T(1), call_.dv, rows);
    }
  }

  // dq of the block of queries from `query` on.
  void queries(int64_t batch, int64_t head, int64_t query) {
    query_tile(batch, head, query, {0, sizes_.keys}, {.dq = true});
  }

 private:
  // The keys and queries of a tile, and its mask.
  struct Cut {
    int64_t keys, queries;
    Mask mask;
  };

  void query_tile(int64_t batch, int64_t head, int64_t query, Span keys, Outputs outputs) {
    const int64_t count = std::min(sizes_.query_block, sizes_.queries - query);
    const int64_t visible = std::min(keys.end, sizes_.visible_keys(query, count));
    const int64_t first = std::max(keys.begin, sizes_.first_key(query));
    if (visible > first) load_queries({batch, head, query, count}, outputs);
    select_head(batch, head / sizes_.group());
    if (visible <= first) std::fill_n(dq_, query_tile_, T(0));
    for (int64_t key = first; key < visible; key += key_block) {
      const Cut cut{std::min(key_block, visible - key), count, sizes_.mask(query, key)};
      recompute(key, cut, outputs);
      if (outputs.dk_dv) add_to_keys((key - keys.begin) / key_block * key_tile_, cut);
      if (outputs.dq) add_to_queries(key, cut, key > first);
    }
    if (outputs.dq) store_columns(dq_, sizes_, scale_, call_.dq, {batch, head, query, count});
  }

  void select_head(int64_t batch, int64_t kv_head) {
    if (batch == batch_ && kv_head == kv_head_) return;
    batch_ = batch;
    kv_head_ = kv_head;
    for (PackedKeys* packed : {&keys_, &values_, &keys_by_channel_}) packed->forget();
  }

  void load_queries(const HeadRows& rows, Outputs outputs) {
    const auto [batch, head, query, count] = rows;
    const int64_t dim = sizes_.dim;
    const Tile q = tile_of(call_.q, batch, head, query),
               dout = tile_of(call_.dout, batch, head, query);
    find_delta(dout, tile_of(call_.out, batch, head, query), count);
    queries_ = matmuls_.pack_left(q.rows(), count, dim, packed_queries_);
    dout_ = matmuls_.pack_left(dout.rows(), count, dim, packed_dout_);
    if (outputs.dk_dv) {
      queries_by_channel_ = matmuls_.pack_left(q.columns(), dim, count, packed_queries_by_channel_);
      dout_by_channel_ = matmuls_.pack_left(dout.columns(), dim, count, packed_dout_by_channel_);
    }
    const int64_t first = (batch * sizes_.heads + head) * sizes_.queries + query;
    const T* lse = load(call_.lse, first, count, lse_);
    for (int64_t i = 0; i < count; ++i) {
      // softmax_gradient() needs NaNs whose low bits are 0, such as this one.
      lse_[i] = std::isnan(lse[i]) ? std::numeric_limits<T>::quiet_NaN()
                                   : lse[i] * std::numbers::log2e_v<T>;
    }
  }

  // delta: the sums of dout * out over rows. Both have one type.
  void find_delta(const Tile& dout, const Tile& out, int64_t count) {
    dispatch(dout.dtype, [&](auto tag) {
      using In = typename decltype(tag)::type;
      if constexpr (is_compute(dtype_of<In>) &&
                    (dtype_of<In> == DType::f64) == std::is_same_v<T, double>) {
        row_dots(RowDots<In, T>{.rows = count,
                                .n = sizes_.dim,
                                .a = static_cast<const In*>(dout.data),
                                .ld_a = dout.ld,
                                .b = static_cast<const In*>(out.data),
                                .ld_b = out.ld,
                                .out = delta_});
      }
    });
  }

  // Queries that see some key of a panel, and those after them in the last one's panel: dq reads
  // complete panels.
  Span seeing(int64_t panel, const Cut& cut) const {
    const int64_t last_key = (panel + 1) * width_ - 1;
    return {cut.mask.first_query(panel * width_, cut.queries),
            std::min(round_up(cut.mask.first_beyond(last_key, cut.queries), width_), cut.queries)};
  }
  // Keys that some query of a panel sees.
  Span seen(int64_t panel, const Cut& cut) const {
    return matmuls_.keys_of_panel(cut.mask, panel, cut.keys);
  }

  // Computes the tile's probabilities and the gradients of its scores as operands of matmuls.
  void recompute(int64_t key, const Cut& cut, Outputs outputs) {
    const int64_t dim = sizes_.dim, block = key / key_block;
    const PackedTile keys = keys_.get(block, [&](void* to) {
      return matmuls_.pack_right(tile_of(call_.k, batch_, kv_head_, key).rows(),
                                 sizes_.block_keys(key), dim, to);
    });
    const PackedTile values = values_.get(block, [&](void* to) {
      return matmuls_.pack_right(tile_of(call_.v, batch_, kv_head_, key).rows(),
                                 sizes_.block_keys(key), dim, to);
    });
    // All steps of a panel follow one another while it is in the L1 cache.
    matmuls_.for_panels(cut.keys, [&](int64_t panel) {
      const Part part{seeing(panel, cut), {0, dim}};
      const int64_t first = matmuls_.rounds() ? 0 : panel * width_ * score_capacity_;
      matmuls_.multiply_panel(panel, part, queries_, keys, scores_ + first, false);
      matmuls_.multiply_panel(panel, part, dout_, values, gradients_ + first, false);
      change_scores(cut.mask.from(0, panel * width_), part.rows, first);
      if (matmuls_.rounds()) {
        round_gradients(panel, cut, outputs);
      } else {
        softmax_gradient(SoftmaxGradient<T>{.queries = part.rows.end,
                                            .width = width_,
                                            .mask = cut.mask.from(0, panel * width_),
                                            .scale = exponent_scale_,
                                            .scores = scores_ + first,
                                            .gradients = gradients_ + first,
                                            .lse = lse_,
                                            .delta = delta_});
      }
    });
    if (!matmuls_.rounds()) {
      p_ = {scores_, score_capacity_};
      ds_ = {gradients_, score_capacity_};
      if (outputs.dq) transpose_gradients({gradients_, dtype_of<T>, score_capacity_}, cut);
      return;
    }
    p_ = {rounded_p_, score_capacity_};
    ds_ = {rounded_ds_, score_capacity_};
    if (!outputs.dq) return;
    if (gradients_in_rows_) {
      transpose_gradients({ds_rows_, DType::bf16, score_capacity_}, cut);
    } else {
      ds_of_queries_ = {packed_ds_of_queries_, matmuls_.padded_columns(cut.keys)};
    }
  }

  // Applies the softcap and the window to the panel at `first`, of which these rows are computed.
  void change_scores(const Mask& mask, Span queries, int64_t first) {
    T *scores = scores_ + first, *gradients = gradients_ + first;
    if (call_.softcap > 0) {
      cap_gradients(CapGradient<T>{.softcap = softcap_,
                                   .rows = queries,
                                   .width = width_,
                                   .scores = scores,
                                   .gradients = gradients,
                                   .delta = delta_});
    }
    if (mask.keys_before(queries.end - 1, width_) > 0)
      hide_keys_of(mask, queries, width_, delta_, scores, gradients);
  }

  // softmax_gradient() of one panel when operands are bf16.
  void round_gradients(int64_t panel, const Cut& cut, Outputs outputs) {
    if constexpr (std::is_same_v<T, float>) {
      const int64_t at = panel * width_, first = at * score_capacity_;
      const Span rows = seeing(panel, cut), queries = matmuls_.padded_k(rows);
      bf16* of_queries = gradients_in_rows_
                             ? ds_rows_ + first
                             : static_cast<bf16*>(packed_ds_of_queries_) + at * width_;
      const RoundedGradients to{// If some query of a panel sees a key, all of the panel is read.
                                .begin = round_down(queries.begin, width_),
                                .end = queries.end,
                                .columns = std::min(width_, cut.keys - at),
                                .group = matmuls_.right_group(),
                                .p = outputs.dk_dv ? rounded_p_ + first : nullptr,
                                .ds = rounded_ds_ + first,
                                .ds_of_queries = outputs.dq ? of_queries : nullptr,
                                .query_panel = matmuls_.padded_columns(cut.keys) * width_};
      softmax_gradient({.queries = rows.end,
                        .width = width_,
                        .mask = cut.mask.from(0, at),
                        .scale = exponent_scale_,
                        .scores = scores_,
                        .gradients = gradients_,
                        .lse = lse_,
                        .delta = delta_},
                       to);
    }
  }

  void transpose_gradients(const ResultPanels& ds, const Cut& cut) {
    ds_of_queries_ = matmuls_.transposed(ds, cut.queries, cut.keys, packed_ds_of_queries_,
                                         [&](int64_t panel) { return seen(panel, cut); });
  }

  void add_to_keys(int64_t offset, const Cut& cut) {
    const auto part = [&](int64_t panel) { return Part{{0, sizes_.dim}, seeing(panel, cut)}; };
    matmuls_.multiply<T>(cut.keys, dout_by_channel_, p_, {dv_ + offset, capacity_, true}, part);
    matmuls_.multiply<T>(cut.keys, queries_by_channel_, ds_, {dk_ + offset, capacity_, true}, part);
  }

  void add_to_queries(int64_t key, const Cut& cut, bool accumulate) {
    const PackedTile keys = keys_by_channel_.get(key / key_block, [&](void* to) {
      return matmuls_.pack_left(tile_of(call_.k, batch_, kv_head_, key).columns(), sizes_.dim,
                                sizes_.block_keys(key), to);
    });
    matmuls_.multiply<T>(cut.queries, keys, ds_of_queries_, {dq_, capacity_, accumulate},
                         [&](int64_t panel) {
                           return Part{{0, sizes_.dim}, seen(panel, cut)};
                         });
  }

  const AttentionBackward& call_;
  const T scale_;
  const Softcap<T> softcap_;
  const T exponent_scale_;  // of exponents of 2
  const Sizes& sizes_;
  const TileMatmuls& matmuls_ = sizes_.matmuls;
  const int64_t width_ = matmuls_.width(), capacity_ = sizes_.capacity(sizes_.dim);
  const int64_t score_capacity_ = sizes_.capacity(sizes_.query_block);
  const int64_t key_tile_ = matmuls_.padded_columns(key_block) * capacity_;  // of dk, and of dv
  const int64_t query_tile_ = matmuls_.padded_columns(sizes_.query_block) * capacity_;  // of dq
  int64_t batch_ = -1, kv_head_ = -1;

  PackedKeys keys_, values_;                             // right, rows are keys
  PackedKeys keys_by_channel_;                           // left, rows are channels
  PackedTile queries_{}, dout_{};                        // left, rows are queries
  PackedTile queries_by_channel_{}, dout_by_channel_{};  // left, rows are channels
  PackedTile p_{}, ds_{};                                // of a tile; right, rows are keys
  PackedTile ds_of_queries_{};                           // right, rows are queries
  T *dk_, *dv_;  // of the current range of keys, block by block
  const int64_t query_bytes_ = matmuls_.left_bytes(sizes_.query_block, sizes_.dim),
                channel_bytes_ = matmuls_.left_bytes(sizes_.dim, sizes_.query_block);
  char* packed_queries_ = backward_scratch().queries.get<char>(query_bytes_);
  char* packed_dout_ = backward_scratch().dout.get<char>(query_bytes_);
  char* packed_queries_by_channel_ =
      backward_scratch().queries_by_channel.get<char>(channel_bytes_);
  char* packed_dout_by_channel_ = backward_scratch().dout_by_channel.get<char>(channel_bytes_);
  const int64_t tile_ = matmuls_.padded_columns(key_block) * score_capacity_,
                rounded_ = matmuls_.rounds() ? tile_ : 0;
  // A tile if scores become operands in place; one panel if they are rounded first.
  const int64_t results_ = matmuls_.rounds() ? width_ * score_capacity_ : tile_;
  T* scores_ = backward_scratch().scores.get<T>(results_);
  T* gradients_ = backward_scratch().gradients.get<T>(results_);
  bf16* rounded_p_ = backward_scratch().p.get<bf16>(rounded_);
  bf16* rounded_ds_ = backward_scratch().ds.get<bf16>(rounded_);
  bf16* ds_rows_ = backward_scratch().ds_rows.get<bf16>(rounded_);
  // With groups of 2, ds is stored in rows and packing makes the operand whose rows are queries.
  const bool gradients_in_rows_ = matmuls_.right_group() == 2;
  void* packed_ds_of_queries_ = backward_scratch().ds_of_queries.get<char>(
      matmuls_.right_bytes(sizes_.query_block, matmuls_.padded_columns(key_block)));
  T* dq_ = backward_scratch().dq.get<T>(query_tile_);
  T* lse_ = backward_scratch().statistics.get<T>(2 * sizes_.query_block);
  T* delta_ = lse_ + sizes_.query_block;
};

// One pass costs 5 matmuls per tile and splits into batch * kv_heads parts; two passes, one for
// keys and one for queries, cost 7 and split into as many parts as there are blocks. Bits are the
// same.
bool use_one_pass(const std::vector<Sizes>& calls) {
  int64_t parts = 0;
  for (const Sizes& sizes : calls) parts += sizes.batch * sizes.kv_heads;
  const int64_t rounds = divide_up(parts, threads());
  return 5 * rounds * threads() <= 7 * parts;
}

template <class T>
void backward_one_pass(std::span<const AttentionBackward> calls, const std::vector<Sizes>& sizes) {
  for_items(
      calls.size(), [&](size_t i) { return sizes[i].batch * sizes[i].kv_heads; },
      [&](size_t i) { return Backward<T>(calls[i], sizes[i], sizes[i].key_blocks()); },
      [&](Backward<T>& work, size_t i, int64_t item) {
        const int64_t heads = sizes[i].kv_heads;
        work.keys(item / heads, item % heads, {0, sizes[i].keys}, {.dq = true, .dk_dv = true});
      });
}

template <class T>
void backward_two_passes(std::span<const AttentionBackward> calls,
                         const std::vector<Sizes>& sizes) {
  for_items(
      calls.size(),
      [&](size_t i) { return sizes[i].batch * sizes[i].kv_heads * sizes[i].key_blocks(); },
      [&](size_t i) { return Backward<T>(calls[i], sizes[i], 1); },
      [&](Backward<T>& work, size_t i, int64_t item) {
        const int64_t blocks = sizes[i].key_blocks(), head = item / blocks,
                      key = balanced(item % blocks, blocks) * key_block;
        work.keys(head / sizes[i].kv_heads, head % sizes[i].kv_heads,
                  {key, std::min(key + key_block, sizes[i].keys)}, {.dk_dv = true});
      });
  for_items(
      calls.size(),
      [&](size_t i) { return sizes[i].batch * sizes[i].heads * sizes[i].query_blocks(); },
      [&](size_t i) { return Backward<T>(calls[i], sizes[i], 0); },
      [&](Backward<T>& work, size_t i, int64_t item) {
        const int64_t blocks = sizes[i].query_blocks(), head = item / blocks;
        work.queries(head / sizes[i].heads, head % sizes[i].heads,
                     balanced(item % blocks, blocks) * sizes[i].query_block);
      });
}

}  // namespace

void backward(const AttentionBackward& call) { backward_each({&call, 1}); }

void backward_each(std::span<const AttentionBackward> calls) {
  if (calls.empty()) return;
  const std::vector<Sizes> sizes = sizes_of(calls);
  with_compute_type("attention", calls[0].q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (use_one_pass(sizes)) {
      backward_one_pass<T>(calls, sizes);
    } else {
      backward_two_passes<T>(calls, sizes);
    }
  });
}

}  // namespace binade::backend::cpu::attention
