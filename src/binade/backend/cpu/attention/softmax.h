#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/formats/number.h"

// Softmaxes of one panel of an attention tile; tile.h describes panels.
namespace binade::backend::cpu::attention {

// Query i sees keys i + diagonal - window < j <= i + diagonal. The softmaxes below know the
// diagonal alone; scores.h hides keys before a window.
struct Mask {
  static constexpr int64_t no_window = int64_t{1} << 62;

  int64_t diagonal;
  int64_t window = no_window;

  // This mask with queries and keys counted from `query` and `key`.
  Mask from(int64_t query, int64_t key) const { return {diagonal + query - key, window}; }
  // How many of `keys` the last of the first `queries` sees.
  int64_t keys_seen(int64_t queries, int64_t keys) const {
    return std::clamp<int64_t>(queries + diagonal, 0, keys);
  }
  // The first of `queries` that sees `key`.
  int64_t first_query(int64_t key, int64_t queries) const {
    return std::clamp<int64_t>(key - diagonal, 0, queries);
  }
  // The first of `queries` whose window begins after `key`.
  int64_t first_beyond(int64_t key, int64_t queries) const {
    return std::clamp<int64_t>(key - diagonal + window, 0, queries);
  }
  // How many of the first `keys` are before the window of `query`.
  int64_t keys_before(int64_t query, int64_t keys) const {
    return std::clamp<int64_t>(query + diagonal - window + 1, 0, keys);
  }
};

// One block of keys in the online softmax of a panel of queries.
template <class T>
struct OnlineSoftmax {
  int64_t keys, width;
  Mask mask;
  T scale;
  T* scores;  // [keys, width]
  // [width] each: maximum of scale * score, sum of 2^(scale * score - maximum), and the factor that
  // rescales earlier results to the new maximum.
  T *maximum, *sum, *correction;
};

// Replaces scores by 2^(scale * score - maximum), 0 where masked; updates each query's maximum and
// sum and writes its correction.
void online_softmax(const OnlineSoftmax<float>& softmax);
void online_softmax(const OnlineSoftmax<double>& softmax);

// A panel of a matmul's right operand in bf16, [k / group][width][group]; group is 2 or 4. Rows up
// to `k`, complete groups, are written.
struct RightPanel {
  bf16* data;
  int group;
  int64_t k;
};

// online_softmax() that keeps the scores and writes their replacements to `to`, rounded to bf16;
// rows of `to` after the last key become zeros.
void online_softmax(const OnlineSoftmax<float>& softmax, const RightPanel& to);

// A panel of keys in the backward of a softmax; T is const if scores and gradients are only read.
template <class T>
struct SoftmaxGradient {
  int64_t queries, width;
  Mask mask;
  T scale;
  T* scores;     // [queries, width]
  T* gradients;  // of the probabilities, [queries, width]
  const T* lse;
  const T* delta;
};

// Replaces scores by the probabilities p = 2^(scale * score - lse) and gradients by those of the
// scores, p * (gradient - delta); 0 where masked.
void softmax_gradient(const SoftmaxGradient<float>& softmax);
void softmax_gradient(const SoftmaxGradient<double>& softmax);

// Destinations of the same results rounded to bf16, for queries from `begin` up to `end`, complete
// groups of them; zeros after the last query and from key `columns` on. Null pointers are not
// written.
struct RoundedGradients {
  int64_t begin, end, columns;
  int group;
  bf16* p;   // a right panel whose k are queries
  bf16* ds;  // the same
  // Group 2: rows, [queries, width]. Group 4: these keys of right panels of `width` queries each,
  // whose k are keys, `query_panel` elements apart.
  bf16* ds_of_queries;
  int64_t query_panel;
};

// A NaN among scores, gradients, lse and delta must have zeros in the 16 bits that bf16 drops.
void softmax_gradient(const SoftmaxGradient<const float>& softmax, const RoundedGradients& to);

}  // namespace binade::backend::cpu::attention
