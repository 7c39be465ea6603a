#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "binade/backend/cpu/attention/blocks.h"
#include "binade/backend/cpu/attention/scores.h"

namespace binade::backend::cpu::attention {
namespace {

AttentionScratch::Forward& forward_scratch() { return attention_scratch().forward; }

template <class T>
class Forward {
 public:
  Forward(const AttentionForward& call, const Sizes& sizes)
      : call_(call),
        softcap_(Softcap<T>::of(call)),
        scale_(static_cast<T>((call.softcap > 0 ? 1 : call.scale) * std::numbers::log2e)),
        sizes_(sizes),
        keys_(forward_scratch().keys, matmuls_.left_bytes(key_block, sizes.dim),
              sizes.key_blocks()),
        values_(forward_scratch().values, matmuls_.left_bytes(sizes.dim, key_block),
                sizes.key_blocks()) {}

  // Attends the block of queries from `first` on.
  void run(int64_t batch, int64_t head, int64_t first) {
    const int64_t count = std::min(sizes_.query_block, sizes_.queries - first);
    const int64_t kv_head = head / sizes_.group();
    if (batch != batch_ || kv_head != kv_head_) {
      keys_.forget();
      values_.forget();
      batch_ = batch;
      kv_head_ = kv_head;
    }
    queries_ = matmuls_.pack_right(tile_of(call_.q, batch, head, first).rows(), count, sizes_.dim,
                                   packed_queries_);
    std::fill_n(maximum_, columns_, -std::numeric_limits<T>::infinity());
    std::fill_n(sum_, columns_, T(0));
    const int64_t visible = sizes_.visible_keys(first, count);
    if (visible == 0) std::fill_n(out_, columns_ * capacity_, T(0));
    first_key_ = sizes_.first_key(first);
    for (int64_t key = first_key_; key < visible; key += key_block)
      attend(key, std::min(key_block, visible - key), count, sizes_.mask(first, key));
    finish({batch, head, first, count});
  }

 private:
  void attend(int64_t key, int64_t keys, int64_t count, Mask mask) {
    const int64_t dim = sizes_.dim, block = key / key_block;
    const PackedTile left_keys = keys_.get(block, [&](void* to) {
      return matmuls_.pack_left(tile_of(call_.k, batch_, kv_head_, key).rows(),
                                sizes_.block_keys(key), dim, to);
    });
    const PackedTile left_values = values_.get(block, [&](void* to) {
      return matmuls_.pack_left(tile_of(call_.v, batch_, kv_head_, key).columns(), dim,
                                sizes_.block_keys(key), to);
    });
    // All steps of a panel follow one another while it is in the L1 cache.
    matmuls_.for_panels(count, [&](int64_t panel) {
      const int64_t at = panel * width_;
      const Span seen = matmuls_.keys_of_panel(mask, panel, keys);
      T* const out = out_ + at * capacity_;
      matmuls_.multiply_panel(panel, {seen, {0, dim}}, left_keys, queries_, scores_, false);
      const PackedTile p = softmax_panel(at, seen, mask.from(at, seen.begin));
      if (key > first_key_) scale_columns(dim, width_, correction_ + at, out);
      matmuls_.multiply_panel(0, {{0, dim}, seen}, left_values, p, out, key > first_key_);
    });
  }

  // Turns the scores of the panel from query `at` on into probabilities, the next matmul's operand.
  // `mask` counts from the first of `keys`.
  PackedTile softmax_panel(int64_t at, Span keys, Mask mask) {
    const int64_t count = keys.end - keys.begin;
    T* const scores = scores_ + keys.begin * width_;
    if (call_.softcap > 0) cap_scores(softcap_, count * width_, scores);
    if (mask.keys_before(width_ - 1, count) > 0) hide_keys(mask, count, width_, scores);
    const OnlineSoftmax<T> softmax{.keys = count,
                                   .width = width_,
                                   .mask = mask,
                                   .scale = scale_,
                                   .scores = scores,
                                   .maximum = maximum_ + at,
                                   .sum = sum_ + at,
                                   .correction = correction_ + at};
    if constexpr (std::is_same_v<T, float>) {
      if (matmuls_.rounds()) {
        online_softmax(softmax, {.data = rounded_ + keys.begin * width_,
                                 .group = matmuls_.right_group(),
                                 .k = matmuls_.padded_k(keys).end - keys.begin});
        return {rounded_, score_capacity_};
      }
    }
    online_softmax(softmax);
    return {scores_, score_capacity_};
  }

  void finish(const HeadRows& rows) {
    for (int64_t i = 0; i < rows.count; ++i) {
      // The maximum of a query that sees no key is still -inf.
      const bool none = maximum_[i] == -std::numeric_limits<T>::infinity();
      correction_[i] = none ? T(0) : T(1) / sum_[i];
      if (!none) maximum_[i] = maximum_[i] * std::numbers::ln2_v<T> + std::log(sum_[i]);
    }
    for (int64_t at = 0; at < rows.count; at += width_)
      scale_columns(sizes_.dim, width_, correction_ + at, out_ + at * capacity_);
    store_columns(out_, sizes_, T(1), call_.out, rows);
    const int64_t item = rows.batch * sizes_.heads + rows.head;
    store(maximum_, call_.lse, item * sizes_.queries + rows.first, rows.count);
  }

  const AttentionForward& call_;
  const Softcap<T> softcap_;
  const T scale_;  // of exponents of 2
  const Sizes& sizes_;
  const TileMatmuls& matmuls_ = sizes_.matmuls;
  const int64_t width_ = matmuls_.width(), columns_ = matmuls_.padded_columns(sizes_.query_block);
  const int64_t score_capacity_ = sizes_.capacity(key_block),
                capacity_ = sizes_.capacity(sizes_.dim);
  int64_t batch_ = -1, kv_head_ = -1;
  int64_t first_key_ = 0;  // that the current block of queries reads
  PackedKeys keys_;        // left, rows are keys
  PackedKeys values_;      // left, rows are channels
  PackedTile queries_{};   // right
  char* packed_queries_ =
      forward_scratch().queries.get<char>(matmuls_.right_bytes(sizes_.query_block, sizes_.dim));
  // Buffers of the current panel.
  T* scores_ = forward_scratch().scores.get<T>(width_ * score_capacity_);
  bf16* rounded_ = forward_scratch().probabilities.get<bf16>(width_ * score_capacity_);
  T* out_ = forward_scratch().out.get<T>(columns_ * capacity_);
  T* maximum_ = forward_scratch().statistics.get<T>(3 * columns_);
  T* sum_ = maximum_ + columns_;
  T* correction_ = sum_ + columns_;
};

}  // namespace

void forward(const AttentionForward& call) { forward_each({&call, 1}); }

void forward_each(std::span<const AttentionForward> calls) {
  if (calls.empty()) return;
  const std::vector<Sizes> sizes = sizes_of(calls);
  with_compute_type("attention", calls[0].q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_items(
        calls.size(),
        [&](size_t i) { return sizes[i].batch * sizes[i].heads * sizes[i].query_blocks(); },
        [&](size_t i) { return Forward<T>(calls[i], sizes[i]); },
        [&](Forward<T>& block, size_t i, int64_t item) {
          const int64_t blocks = sizes[i].query_blocks(), head = item / blocks;
          block.run(head / sizes[i].heads, head % sizes[i].heads,
                    balanced(item % blocks, blocks) * sizes[i].query_block);
        });
  });
}

}  // namespace binade::backend::cpu::attention
