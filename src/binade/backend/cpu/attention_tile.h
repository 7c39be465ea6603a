#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/formats/number.h"

// The arithmetic of one panel of a tile of attention, compiled for each instruction set: `rows`
// rows of `width` f32 or f64, one after the other without gaps. A width is a multiple of 4.
namespace binade::backend::cpu::attention {

// Columns of a panel of f64.
inline constexpr int64_t product_width = 16;

// c [m, product_width] = a [m, k] b [k, product_width], or c += a b; rows of a lie a_row apart.
// Each element of c is one chain of sums in ascending k, whatever m is.
void product(int64_t m, int64_t k, const double* a, int64_t a_row, const double* b, double* c,
             bool accumulate);

// Asks for n elements before they are needed.
template <class T>
void prefetch(const T* p, int64_t n) {
  constexpr int64_t line = 64 / sizeof(T);
  for (int64_t i = 0; i < n; i += line) __builtin_prefetch(p + i);
}

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

// panel[i, j] *= factors[j].
void scale_columns(int64_t rows, int64_t width, const float* factors, float* panel);
void scale_columns(int64_t rows, int64_t width, const double* factors, double* panel);

// out[j, i] = factor * in[i, j].
void transpose(int64_t rows, int64_t columns, float factor, const float* in, int64_t ld_in,
               float* out, int64_t ld_out);
void transpose(int64_t rows, int64_t columns, double factor, const double* in, int64_t ld_in,
               double* out, int64_t ld_out);

// The same, rounded, as softmax_gradient() rounds: where products are of bf16.
void transpose(int64_t rows, int64_t columns, float factor, const float* in, int64_t ld_in,
               bf16* out, int64_t ld_out);

// out[i] = sum of a[i, j] * b[i, j]; rows lie ld_a and ld_b apart.
template <class T, class Sum>
void row_dots(int64_t rows, int64_t n, const T* a, int64_t ld_a, const T* b, int64_t ld_b,
              Sum* out);

}  // namespace binade::backend::cpu::attention
