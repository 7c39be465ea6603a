#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/formats/number.h"

// Softmaxes of one panel of a tile of attention, as attention_tile.h has panels.
namespace binade::backend::cpu::attention {

// Query i sees keys j <= i + diagonal.
struct Mask {
  int64_t diagonal;

  // The same for queries and keys counted from these on.
  Mask from(int64_t query, int64_t key) const { return {diagonal + query - key}; }
  // How many of `keys` the last of the first `queries` sees.
  int64_t keys_seen(int64_t queries, int64_t keys) const {
    return std::clamp<int64_t>(queries + diagonal, 0, keys);
  }
  // The first of `queries` that sees `key`.
  int64_t first_query(int64_t key, int64_t queries) const {
    return std::clamp<int64_t>(key - diagonal, 0, queries);
  }
};

// One block of keys in the online softmax of a panel of queries, scores [keys, width]: leaves
// 2^(scale * score - maximum) in their place (0 where hidden), updates each query's maximum (of
// scale * score) and sum and tells what factor brings earlier results to the new maximum.
void online_softmax(int64_t keys, int64_t width, Mask mask, float scale, float* scores,
                    float* maximum, float* sum, float* correction);
void online_softmax(int64_t keys, int64_t width, Mask mask, double scale, double* scores,
                    double* maximum, double* sum, double* correction);

// A panel of a product's right operand in bf16, [k / group][width][group]; group is 2 or 4.
struct RightPanel {
  bf16* data;
  int group;
};

// The same, but leaves the scores and writes what would replace them, rounded; zeros for keys up to
// `end`, whole groups.
void online_softmax(int64_t keys, int64_t end, int64_t width, Mask mask, float scale,
                    const float* scores, float* maximum, float* sum, float* correction,
                    RightPanel to);

// Takes scores and the gradients of the probabilities of a panel of keys, [queries, width]; leaves
// the probabilities 2^(scale * score - lse) and the gradients of the scores, p * (dp - delta); 0
// where hidden.
void softmax_gradient(int64_t queries, int64_t width, Mask mask, float scale, float* scores,
                      float* gradients, const float* lse, const float* delta);
void softmax_gradient(int64_t queries, int64_t width, Mask mask, double scale, double* scores,
                      double* gradients, const double* lse, const double* delta);

// Where the same goes rounded to bf16, for queries from `begin` up to `end`, whole groups of them;
// zeros where there is no query and from key `columns` on. What is null is not wanted.
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

// NaN of scores, gradients, lse and delta may have no bit set that bf16 lacks.
void softmax_gradient(int64_t queries, int64_t width, Mask mask, float scale, const float* scores,
                      const float* gradients, const float* lse, const float* delta,
                      const RoundedGradients& to);

}  // namespace binade::backend::cpu::attention
