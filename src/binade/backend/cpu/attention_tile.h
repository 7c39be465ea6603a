#pragma once

#include <cstdint>

// The arithmetic of one tile of attention, compiled for each instruction set. Tiles are row-major
// f32 or f64 with a leading dimension `ld`; scores lie transposed, [keys, queries], so that the
// softmax of several queries runs in the lanes of a vector and keys need no transposition.
namespace binade::backend::cpu::attention {

// Products and softmaxes work on whole vectors of columns: rows of every tile that they read or
// write by vector must have room up to the next multiple of this.
template <class T>
inline constexpr int64_t column_padding = 128 / sizeof(T);

template <class T>
constexpr int64_t padded(int64_t columns) {
  return (columns + column_padding<T> - 1) / column_padding<T> * column_padding<T>;
}

// c [m, n] = a [m, k] b [k, n], or c += a b; a may have any strides. Each element of c is one chain
// of sums in ascending k, whatever the tile's size. Columns of c past n may be overwritten.
void product(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
             const double* b, int64_t ldb, double* c, int64_t ldc, bool accumulate);

// Query i of the tile sees keys j <= i + diagonal.
struct TileMask {
  int64_t diagonal;
  bool hides(int64_t keys) const { return diagonal < keys - 1; }
};

// One block of keys in the online softmax of `queries` rows: takes scores, leaves exp(scale *
// score - maximum) in their place (0 where hidden), updates each row's maximum and sum and tells
// what factor brings earlier results to the new maximum.
void online_softmax(int64_t keys, int64_t queries, TileMask mask, float scale, float* scores,
                    int64_t ld, float* maximum, float* sum, float* correction);
void online_softmax(int64_t keys, int64_t queries, TileMask mask, double scale, double* scores,
                    int64_t ld, double* maximum, double* sum, double* correction);

// Takes scores and the gradients of the probabilities, leaves the probabilities exp(scale *
// score - lse)
// and the gradients of the scores, p * (dp - delta); 0 where hidden.
void softmax_gradient(int64_t keys, int64_t queries, TileMask mask, float scale, float* scores,
                      float* gradients, int64_t ld, const float* lse, const float* delta);
void softmax_gradient(int64_t keys, int64_t queries, TileMask mask, double scale, double* scores,
                      double* gradients, int64_t ld, const double* lse, const double* delta);

// tile[i, j] *= factors[j].
void scale_columns(int64_t rows, int64_t columns, const float* factors, float* tile, int64_t ld);
void scale_columns(int64_t rows, int64_t columns, const double* factors, double* tile, int64_t ld);

// out[j, i] = in[i, j].
void transpose(int64_t rows, int64_t columns, const float* in, int64_t ld_in, float* out,
               int64_t ld_out);
void transpose(int64_t rows, int64_t columns, const double* in, int64_t ld_in, double* out,
               int64_t ld_out);

// Sum of a[i] * b[i].
float dot(const float* a, const float* b, int64_t n);
double dot(const double* a, const double* b, int64_t n);

}  // namespace binade::backend::cpu::attention
