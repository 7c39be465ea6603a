#include <cmath>
#include <limits>

#include "binade/backend/cpu/attention_blocks.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu::attention {
namespace {

// A thread's own, kept between calls.
struct Scratch {
  ScratchBuffer keys, values, queries, scores, probabilities, rounded, out, rows, statistics;
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
        scale_(static_cast<T>(scale)),
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
    std::fill_n(maximum_, ld_, -std::numeric_limits<T>::infinity());
    std::fill_n(sum_, ld_, T(0));
    std::fill_n(out_, sizes_.dim * ld_, T(0));
    const int64_t visible = sizes_.visible_keys(first, count);
    for (int64_t key = 0; key < visible; key += key_block)
      attend(key, std::min(key_block, visible - key), count, sizes_.mask(first, key));
    finish(batch, head, first, count, out, lse);
  }

 private:
  void attend(int64_t key, int64_t width, int64_t count, TileMask mask) {
    const int64_t dim = sizes_.dim, block = key / key_block;
    const Operand keys = keys_.get(block, [&](void* to) {
      return products_.pack_left(tile_of(k_, batch_, kv_head_, key).rows(), sizes_.block_keys(key),
                                 dim, to);
    });
    const Operand values = values_.get(block, [&](void* to) {
      return products_.pack_left(tile_of(v_, batch_, kv_head_, key).columns(), dim,
                                 sizes_.block_keys(key), to);
    });
    products_.multiply(width, count, dim, keys, queries_, scores_, ld_, false);
    online_softmax(width, count, mask, scale_, scores_, ld_, maximum_, sum_, correction_);
    scale_columns(dim, count, correction_, out_, ld_);
    const Tile p = products_.as_operand(scores_, width, count, ld_, scratch().rounded);
    const Operand probabilities = products_.pack_right(p.columns(), count, width, packed_tile_);
    products_.multiply(dim, count, width, values, probabilities, out_, ld_, true);
  }

  void finish(int64_t batch, int64_t head, int64_t first, int64_t count, const TensorView& out,
              const TensorView& lse) {
    for (int64_t i = 0; i < count; ++i) {
      // Without a key to see the maximum is -inf, and the sum 0 says so too.
      const bool none = sum_[i] == T(0);
      correction_[i] = none ? T(0) : T(1) / sum_[i];
      maximum_[i] = none ? -std::numeric_limits<T>::infinity() : maximum_[i] + std::log(sum_[i]);
    }
    scale_columns(sizes_.dim, count, correction_, out_, ld_);
    store_columns(out_, ld_, count, out, batch, head, first, scratch().rows);
    store(maximum_, lse, (batch * sizes_.heads + head) * sizes_.queries + first, count);
  }

  const TensorView& q_;
  const TensorView& k_;
  const TensorView& v_;
  const T scale_;
  const Sizes& sizes_;
  const Products& products_ = sizes_.products;
  const int64_t ld_ = sizes_.ld_queries<T>();
  int64_t batch_ = -1, kv_head_ = -1;
  KeyOperands keys_;    // left, lines are keys
  KeyOperands values_;  // left, lines are channels
  Operand queries_{};   // right
  char* packed_queries_ =
      scratch().queries.get<char>(products_.right_bytes(sizes_.query_block, sizes_.dim));
  char* packed_tile_ =
      scratch().probabilities.get<char>(products_.right_bytes(sizes_.query_block, key_block));
  T* scores_ = scratch().scores.get<T>(products_.whole_rows(key_block) * ld_);
  T* out_ = scratch().out.get<T>(products_.whole_rows(sizes_.dim) * ld_);
  T* maximum_ = scratch().statistics.get<T>(3 * ld_);
  T* sum_ = maximum_ + ld_;
  T* correction_ = sum_ + ld_;
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
