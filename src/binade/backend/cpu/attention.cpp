#include "binade/backend/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/backend/cpu/attention_tile.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows.h"
#include "binade/base/parallel.h"

namespace binade::backend::cpu {
namespace {

using attention::padded;
using attention::TileMask;

constexpr int64_t query_block = 64;
constexpr int64_t key_block = 64;

int64_t blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, dim;
  bool causal;

  Sizes(const TensorView& q, const TensorView& k, bool causal)
      : batch(q.shape[0]),
        heads(q.shape[1]),
        kv_heads(k.shape[1]),
        queries(q.shape[2]),
        keys(k.shape[2]),
        dim(q.shape[3]),
        causal(causal) {}

  int64_t group() const { return kv_heads > 0 ? heads / kv_heads : 0; }

  // Query i of a tile at (query, key) sees keys j <= i + diagonal of it.
  TileMask mask(int64_t query, int64_t key) const {
    return {causal ? query + keys - queries - key : key_block};
  }
  // How many keys the last of `count` queries from `query` on sees: later ones need not be read.
  int64_t visible_keys(int64_t query, int64_t count) const {
    return causal ? std::clamp<int64_t>(query + count + keys - queries, 0, keys) : keys;
  }
};

// Rows of one head, `ld` apart, as T.
template <class T>
struct Rows {
  const T* data;
  int64_t ld;
};

int64_t row_offset(const TensorView& x, int64_t batch, int64_t head, int64_t row) {
  return batch * x.strides[0] + head * x.strides[1] + row * x.strides[2];
}

// `count` rows in place where they can be read by whole vectors, else widened into `scratch`.
template <class T>
Rows<T> load_rows(const TensorView& x, int64_t batch, int64_t head, int64_t first, int64_t count,
                  T* scratch) {
  const int64_t dim = x.shape[3], ld = padded<T>(dim);
  const int64_t start = row_offset(x, batch, head, first);
  if (x.dtype == dtype_of<T> && dim == ld) return {x.as<T>() + start, x.strides[2]};
  for (int64_t i = 0; i < count; ++i) {
    T* row = scratch + i * ld;
    const T* loaded = load(x, start + i * x.strides[2], dim, row);
    if (loaded != row) std::copy_n(loaded, dim, row);
  }
  return {scratch, ld};
}

template <class T>
void store_rows(const T* rows, int64_t ld, int64_t count, const TensorView& y, int64_t batch,
                int64_t head, int64_t first) {
  for (int64_t i = 0; i < count; ++i) {
    store(rows + i * ld, y, row_offset(y, batch, head, first + i), y.shape[3]);
  }
}

template <class T>
void transpose(Rows<T> rows, int64_t count, int64_t dim, T* out, int64_t ld) {
  for (int64_t i = 0; i < count; ++i) {
    const T* row = rows.data + i * rows.ld;
    for (int64_t p = 0; p < dim; ++p) out[p * ld + i] = row[p];
  }
}

// A causal head's later blocks cost more: pairing early with late ones evens out what threads get.
int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

// ---- forward ----

template <class T>
class Forward {
 public:
  Forward(const TensorView& q, const TensorView& k, const TensorView& v, double scale,
          const Sizes& sizes)
      : q_(q), k_(k), v_(v), scale_(static_cast<T>(scale)), sizes_(sizes) {}

  // Attends the block of queries from `first` on; results stay in this object's tiles.
  void run(int64_t batch, int64_t head, int64_t first, const TensorView& out,
           const TensorView& lse) {
    const int64_t count = std::min(query_block, sizes_.queries - first);
    const int64_t kv_head = head / sizes_.group();
    load_queries(batch, head, first, count);
    const int64_t visible = sizes_.visible_keys(first, count);
    for (int64_t key = 0; key < visible; key += key_block) {
      attend(batch, kv_head, key, std::min(key_block, sizes_.keys - key), count,
             sizes_.mask(first, key));
    }
    finish(batch, head, first, count, out, lse);
  }

 private:
  void load_queries(int64_t batch, int64_t head, int64_t first, int64_t count) {
    const Rows<T> rows = load_rows(q_, batch, head, first, count, keys_.data());
    transpose(rows, count, sizes_.dim, queries_.data(), ld_queries_);
    for (T& value : queries_) value *= scale_;
    std::fill(maximum_.begin(), maximum_.end(), -std::numeric_limits<T>::infinity());
    std::fill(sum_.begin(), sum_.end(), T(0));
    std::fill(out_.begin(), out_.end(), T(0));
  }

  void attend(int64_t batch, int64_t kv_head, int64_t key, int64_t keys, int64_t count,
              TileMask mask) {
    const int64_t dim = sizes_.dim;
    const Rows<T> k = load_rows(k_, batch, kv_head, key, keys, keys_.data());
    attention::product(keys, count, dim, k.data, k.ld, 1, queries_.data(), ld_queries_,
                       scores_.data(), ld_queries_, false);
    attention::online_softmax(keys, count, mask, scores_.data(), ld_queries_, maximum_.data(),
                              sum_.data(), correction_.data());
    for (int64_t i = 0; i < count; ++i) {
      const T factor = correction_[static_cast<size_t>(i)];
      if (factor == T(1)) continue;
      for (int64_t p = 0; p < dim; ++p) out_[static_cast<size_t>(i * ld_ + p)] *= factor;
    }
    const Rows<T> v = load_rows(v_, batch, kv_head, key, keys, values_.data());
    attention::product(count, dim, keys, scores_.data(), 1, ld_queries_, v.data, v.ld, out_.data(),
                       ld_, true);
  }

  void finish(int64_t batch, int64_t head, int64_t first, int64_t count, const TensorView& out,
              const TensorView& lse) {
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<size_t>(i);
      const T sum = sum_[row];
      const T inverse = sum == T(0) ? T(0) : T(1) / sum;
      for (int64_t p = 0; p < sizes_.dim; ++p) out_[static_cast<size_t>(i * ld_ + p)] *= inverse;
      // Without a key to see the maximum is -inf, and the sum 0 says so too.
      maximum_[row] =
          sum == T(0) ? -std::numeric_limits<T>::infinity() : maximum_[row] + std::log(sum);
    }
    store_rows(out_.data(), ld_, count, out, batch, head, first);
    store(maximum_.data(), lse, (batch * sizes_.heads + head) * sizes_.queries + first, count);
  }

  const TensorView& q_;
  const TensorView& k_;
  const TensorView& v_;
  const T scale_;
  const Sizes& sizes_;
  const int64_t ld_ = padded<T>(sizes_.dim);
  const int64_t ld_queries_ = padded<T>(query_block);

  std::vector<T> queries_ =
      std::vector<T>(static_cast<size_t>(sizes_.dim * ld_queries_));  // transposed
  std::vector<T> keys_ =
      std::vector<T>(static_cast<size_t>(std::max(query_block, key_block) * ld_));
  std::vector<T> values_ = std::vector<T>(static_cast<size_t>(key_block * ld_));
  std::vector<T> scores_ =
      std::vector<T>(static_cast<size_t>(key_block * ld_queries_));  // transposed
  std::vector<T> out_ = std::vector<T>(static_cast<size_t>(query_block * ld_));
  std::vector<T> maximum_ = std::vector<T>(static_cast<size_t>(ld_queries_));
  std::vector<T> sum_ = maximum_, correction_ = maximum_;
};

void forward(TensorView q, TensorView k, TensorView v, double scale, bool causal, TensorView out,
             TensorView lse) {
  const Sizes sizes(q, k, causal);
  const int64_t per_head = blocks(sizes.queries, query_block);
  with_compute_type("attention", q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(sizes.batch * sizes.heads * per_head, 1, [&](int64_t begin, int64_t end) {
      Forward<T> tile(q, k, v, scale, sizes);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t head = item / per_head;
        tile.run(head / sizes.heads, head % sizes.heads,
                 balanced(item % per_head, per_head) * query_block, out, lse);
      }
    });
  });
}

// ---- backward ----

struct Range {
  int64_t begin, end;
};

// The tensors of a backward call.
struct Gradients {
  const TensorView &dout, &q, &k, &v, &out, &lse;
  double scale;
  const TensorView &dq, &dk, &dv;
};

// Recomputes tiles of probabilities from lse and sums gradients. A key's gradient sums over (head,
// query) and a query's over keys, both ascending by whole blocks: the same bits however the blocks
// are shared out.
template <class T>
class Backward {
 public:
  Backward(const Gradients& tensors, const Sizes& sizes, int64_t keys)
      : tensors_(tensors),
        scale_(static_cast<T>(tensors.scale)),
        sizes_(sizes),
        dk_(static_cast<size_t>(keys * ld_)),
        dv_(static_cast<size_t>(keys * ld_)) {}

  // All that the heads of kv_head say about dk and dv of the keys in `keys` (from a block's start),
  // and, where `with_queries`, their dq as well: then `keys` must be all of them.
  void keys(int64_t batch, int64_t kv_head, Range keys, bool with_queries) {
    std::fill(dk_.begin(), dk_.end(), T(0));
    std::fill(dv_.begin(), dv_.end(), T(0));
    const int64_t group = sizes_.group();
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int64_t query = 0; query < sizes_.queries; query += query_block) {
        query_tile(batch, head, query, keys, with_queries, true);
      }
    }
    store_rows(dk_.data(), ld_, keys.end - keys.begin, tensors_.dk, batch, kv_head, keys.begin);
    store_rows(dv_.data(), ld_, keys.end - keys.begin, tensors_.dv, batch, kv_head, keys.begin);
  }

  // dq of the block of queries from `query` on.
  void queries(int64_t batch, int64_t head, int64_t query) {
    query_tile(batch, head, query, {0, sizes_.keys}, true, false);
  }

 private:
  void query_tile(int64_t batch, int64_t head, int64_t query, Range keys, bool with_queries,
                  bool with_keys) {
    const int64_t count = std::min(query_block, sizes_.queries - query);
    const int64_t visible = std::min(keys.end, sizes_.visible_keys(query, count));
    if (visible > keys.begin) load_queries(batch, head, query, count);
    std::fill(dq_.begin(), dq_.end(), T(0));
    for (int64_t key = keys.begin; key < visible; key += key_block) {
      const int64_t width = std::min(key_block, sizes_.keys - key);
      const Rows<T> k = load_rows(tensors_.k, batch, head / sizes_.group(), key, width, k_.data());
      recompute(batch, head, key, width, count, sizes_.mask(query, key), k);
      if (with_keys) add_to_keys((key - keys.begin) * ld_, width, count);
      if (with_queries) {
        attention::product(count, sizes_.dim, width, gradients_.data(), 1, ld_queries_, k.data,
                           k.ld, dq_.data(), ld_, true);
      }
    }
    if (!with_queries) return;
    for (T& value : dq_) value *= scale_;
    store_rows(dq_.data(), ld_, count, tensors_.dq, batch, head, query);
  }

  void load_queries(int64_t batch, int64_t head, int64_t query, int64_t count) {
    const int64_t dim = sizes_.dim;
    const Rows<T> q = load_rows(tensors_.q, batch, head, query, count, q_.data());
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t p = 0; p < dim; ++p) {
        q_[static_cast<size_t>(i * ld_ + p)] = q.data[i * q.ld + p] * scale_;
      }
    }
    transpose<T>({q_.data(), ld_}, count, dim, q_transposed_.data(), ld_queries_);
    const Rows<T> out = load_rows(tensors_.out, batch, head, query, count, k_.data());
    dout_ = load_rows(tensors_.dout, batch, head, query, count, dout_rows_.data());
    transpose(dout_, count, dim, dout_transposed_.data(), ld_queries_);
    for (int64_t i = 0; i < count; ++i) {
      delta_[static_cast<size_t>(i)] =
          attention::dot(dout_.data + i * dout_.ld, out.data + i * out.ld, dim);
    }
    const int64_t first = (batch * sizes_.heads + head) * sizes_.queries + query;
    std::copy_n(load(tensors_.lse, first, count, lse_.data()), count, lse_.data());
  }

  // The tile's probabilities into scores_, the gradients of its scores into gradients_.
  void recompute(int64_t batch, int64_t head, int64_t key, int64_t width, int64_t count,
                 TileMask mask, Rows<T> k) {
    const int64_t dim = sizes_.dim;
    attention::product(width, count, dim, k.data, k.ld, 1, q_transposed_.data(), ld_queries_,
                       scores_.data(), ld_queries_, false);
    const Rows<T> v = load_rows(tensors_.v, batch, head / sizes_.group(), key, width, v_.data());
    attention::product(width, count, dim, v.data, v.ld, 1, dout_transposed_.data(), ld_queries_,
                       gradients_.data(), ld_queries_, false);
    attention::softmax_gradient(width, count, mask, scores_.data(), gradients_.data(), ld_queries_,
                                lse_.data(), delta_.data());
  }

  void add_to_keys(int64_t offset, int64_t width, int64_t count) {
    attention::product(width, sizes_.dim, count, scores_.data(), ld_queries_, 1, dout_.data,
                       dout_.ld, dv_.data() + offset, ld_, true);
    // The rows of q_ carry the scale already.
    attention::product(width, sizes_.dim, count, gradients_.data(), ld_queries_, 1, q_.data(), ld_,
                       dk_.data() + offset, ld_, true);
  }

  const Gradients& tensors_;
  const T scale_;
  const Sizes& sizes_;
  const int64_t ld_ = padded<T>(sizes_.dim);
  const int64_t ld_queries_ = padded<T>(query_block);

  std::vector<T> dk_, dv_;  // of the range of keys in work
  std::vector<T> q_ = std::vector<T>(static_cast<size_t>(query_block * ld_));  // times the scale
  std::vector<T> dout_rows_ = q_, dq_ = q_;
  Rows<T> dout_{};
  std::vector<T> k_ = std::vector<T>(static_cast<size_t>(std::max(query_block, key_block) * ld_));
  std::vector<T> v_ = k_;
  std::vector<T> q_transposed_ = std::vector<T>(static_cast<size_t>(sizes_.dim * ld_queries_));
  std::vector<T> dout_transposed_ = q_transposed_;
  std::vector<T> scores_ = std::vector<T>(static_cast<size_t>(key_block * ld_queries_));
  std::vector<T> gradients_ = scores_;  // both transposed: [keys, queries]
  std::vector<T> lse_ = std::vector<T>(static_cast<size_t>(ld_queries_)), delta_ = lse_;
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
    Backward<T> tile(tensors, sizes, sizes.keys);
    for (int64_t item = begin; item < end; ++item) {
      tile.keys(item / sizes.kv_heads, item % sizes.kv_heads, {0, sizes.keys}, true);
    }
  });
}

template <class T>
void backward_two_passes(const Gradients& tensors, const Sizes& sizes) {
  const int64_t key_blocks = blocks(sizes.keys, key_block);
  parallel_for(sizes.batch * sizes.kv_heads * key_blocks, 1, [&](int64_t begin, int64_t end) {
    Backward<T> tile(tensors, sizes, key_block);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / key_blocks,
                    key = balanced(item % key_blocks, key_blocks) * key_block;
      tile.keys(head / sizes.kv_heads, head % sizes.kv_heads,
                {key, std::min(key + key_block, sizes.keys)}, false);
    }
  });
  const int64_t query_blocks = blocks(sizes.queries, query_block);
  parallel_for(sizes.batch * sizes.heads * query_blocks, 1, [&](int64_t begin, int64_t end) {
    Backward<T> tile(tensors, sizes, 0);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / query_blocks;
      tile.queries(head / sizes.heads, head % sizes.heads,
                   balanced(item % query_blocks, query_blocks) * query_block);
    }
  });
}

void backward(TensorView dout, TensorView q, TensorView k, TensorView v, TensorView out,
              TensorView lse, double scale, bool causal, TensorView dq, TensorView dk,
              TensorView dv) {
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

// ---- rotary embedding ----

template <class T>
void rotate(const T* x, const float* cosine, const float* sine, int64_t half, bool inverse, T* y) {
  const T sign = inverse ? T(-1) : T(1);
  for (int64_t i = 0; i < half; ++i) {
    const T c = cosine[i], s = sign * static_cast<T>(sine[i]);
    y[i] = x[i] * c - x[i + half] * s;
    y[i + half] = x[i + half] * c + x[i] * s;
  }
}

void rope(TensorView x, TensorView cosine, TensorView sine, int64_t start, bool inverse,
          TensorView y) {
  const int64_t tokens = x.shape[1], heads = x.shape[2], dim = x.shape[3], half = dim / 2;
  // Heads that follow one another in memory are read and written together.
  const int64_t together =
      x.strides[2] == dim && y.strides[2] == dim ? std::max<int64_t>(heads, 1) : 1;
  with_compute_type("rope", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(x.shape[0] * tokens, 16, [&](int64_t begin, int64_t end) {
      std::vector<T> rows(static_cast<size_t>(together * dim)), turned(rows);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t batch = item / tokens, token = item % tokens, entry = (start + token) * half;
        for (int64_t head = 0; head < heads; head += together) {
          const T* in = load(x, row_offset(x, batch, token, head), together * dim, rows.data());
          for (int64_t row = 0; row < together * dim; row += dim) {
            rotate(in + row, cosine.as<float>() + entry, sine.as<float>() + entry, half, inverse,
                   turned.data() + row);
          }
          store(turned.data(), y, row_offset(y, batch, token, head), together * dim);
        }
      }
    });
  });
}

}  // namespace

const AttentionKernels attention_kernels{.forward = forward, .backward = backward, .rope = rope};

}  // namespace binade::backend::cpu
