#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "binade/backend/cpu/attention/blocks.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu::attention {
namespace {

// A thread's own, kept between calls.
struct Scratch {
  ScratchBuffer keys, values, queries, scores, probabilities, out, rows, statistics;
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

template <class T>
class Forward {
 public:
  Forward(const TensorView& q, const TensorView& k, const TensorView& v, double scale,
          const Sizes& sizes)
      : q_(q),
        k_(k),
        v_(v),
        scale_(static_cast<T>(scale * std::numbers::log2e)),
        sizes_(sizes),
        keys_(scratch().keys, products_.left_bytes(key_block, sizes.dim), sizes.key_blocks()),
        values_(scratch().values, products_.left_bytes(sizes.dim, key_block), sizes.key_blocks()) {}

  // Attends the block of queries from `first` on.
  void run(int64_t batch, int64_t head, int64_t first, const TensorView& out,
           const TensorView& lse) {
    const int64_t count = std::min(sizes_.query_block, sizes_.queries - first);
    const int64_t kv_head = head / sizes_.group();
    if (batch != batch_ || kv_head != kv_head_) {
      keys_.forget();
      values_.forget();
      batch_ = batch;
      kv_head_ = kv_head;
    }
    queries_ = products_.pack_right(tile_of(q_, batch, head, first).rows(), count, sizes_.dim,
                                    packed_queries_);
    std::fill_n(maximum_, columns_, -std::numeric_limits<T>::infinity());
    std::fill_n(sum_, columns_, T(0));
    const int64_t visible = sizes_.visible_keys(first, count);
    if (visible == 0) std::fill_n(out_, columns_ * room_, T(0));
    for (int64_t key = 0; key < visible; key += key_block)
      attend(key, std::min(key_block, visible - key), count, sizes_.mask(first, key));
    finish(batch, head, first, count, out, lse);
  }

 private:
  void attend(int64_t key, int64_t keys, int64_t count, Mask mask) {
    const int64_t dim = sizes_.dim, block = key / key_block;
    const Operand left_keys = keys_.get(block, [&](void* to) {
      return products_.pack_left(tile_of(k_, batch_, kv_head_, key).rows(), sizes_.block_keys(key),
                                 dim, to);
    });
    const Operand left_values = values_.get(block, [&](void* to) {
      return products_.pack_left(tile_of(v_, batch_, kv_head_, key).columns(), dim,
                                 sizes_.block_keys(key), to);
    });
    const auto seen = [&](int64_t panel) {
      return Span{0, mask.keys_seen((panel + 1) * width_, keys)};
    };
    // Each panel goes all the way while it is in the nearest cache.
    products_.for_panels(count, [&](int64_t panel) {
      const int64_t at = panel * width_;
      products_.multiply_panel(panel, {seen(panel), {0, dim}}, left_keys, queries_, scores_, false);
      const Operand p = softmax_panel(at, seen(panel), mask.from(at, 0));
      if (key > 0) scale_columns(dim, width_, correction_ + at, out_ + at * room_);
      products_.multiply_panel(0, {{0, dim}, seen(panel)}, left_values, p, out_ + at * room_,
                               key > 0);
    });
  }

  // Makes the scores of the panel from query `at` on probabilities, the next product's operand.
  Operand softmax_panel(int64_t at, Span keys, Mask mask) {
    if constexpr (std::is_same_v<T, float>) {
      if (products_.rounds()) {
        const RightPanel to{rounded_, products_.right_group()};
        online_softmax(keys.end, products_.whole_groups(keys).end, width_, mask, scale_, scores_,
                       maximum_ + at, sum_ + at, correction_ + at, to);
        return {rounded_, score_room_};
      }
    }
    online_softmax(keys.end, width_, mask, scale_, scores_, maximum_ + at, sum_ + at,
                   correction_ + at);
    return {scores_, score_room_};
  }

  void finish(int64_t batch, int64_t head, int64_t first, int64_t count, const TensorView& out,
              const TensorView& lse) {
    for (int64_t i = 0; i < count; ++i) {
      // Without a key to see the maximum stays -inf.
      const bool none = maximum_[i] == -std::numeric_limits<T>::infinity();
      correction_[i] = none ? T(0) : T(1) / sum_[i];
      if (!none) maximum_[i] = maximum_[i] * std::numbers::ln2_v<T> + std::log(sum_[i]);
    }
    for (int64_t at = 0; at < count; at += width_)
      scale_columns(sizes_.dim, width_, correction_ + at, out_ + at * room_);
    store_columns(out_, sizes_, count, T(1), out, batch, head, first, scratch().rows);
    store(maximum_, lse, (batch * sizes_.heads + head) * sizes_.queries + first, count);
  }

  const TensorView& q_;
  const TensorView& k_;
  const TensorView& v_;
  const T scale_;  // of exponents of 2
  const Sizes& sizes_;
  const Products& products_ = sizes_.products;
  const int64_t width_ = products_.width(), columns_ = products_.whole_columns(sizes_.query_block);
  const int64_t score_room_ = sizes_.room(key_block), room_ = sizes_.room(sizes_.dim);
  int64_t batch_ = -1, kv_head_ = -1;
  KeyOperands keys_;    // left, lines are keys
  KeyOperands values_;  // left, lines are channels
  Operand queries_{};   // right
  char* packed_queries_ =
      scratch().queries.get<char>(products_.right_bytes(sizes_.query_block, sizes_.dim));
  // Of the panel in work.
  T* scores_ = scratch().scores.get<T>(width_ * score_room_);
  bf16* rounded_ = scratch().probabilities.get<bf16>(width_ * score_room_);
  T* out_ = scratch().out.get<T>(columns_ * room_);
  T* maximum_ = scratch().statistics.get<T>(3 * columns_);
  T* sum_ = maximum_ + columns_;
  T* correction_ = sum_ + columns_;
};

}  // namespace

void forward(TensorView q, TensorView k, TensorView v, double scale, bool causal, bool /*tf32*/,
             TensorView out, TensorView lse) {
  const Sizes sizes(q, k, causal);
  const int64_t per_head = sizes.query_blocks();
  with_compute_type("attention", q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(sizes.batch * sizes.heads * per_head, 1, [&](int64_t begin, int64_t end) {
      Forward<T> block(q, k, v, scale, sizes);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t head = item / per_head;
        block.run(head / sizes.heads, head % sizes.heads,
                  balanced(item % per_head, per_head) * sizes.query_block, out, lse);
      }
    });
  });
}

}  // namespace binade::backend::cpu::attention
