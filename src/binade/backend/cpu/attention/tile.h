#pragma once

#include <cstdint>

#include "binade/formats/number.h"

// What is done with one panel of a tile of attention, compiled for each instruction set: `rows`
// rows of `width` f32 or f64, one after the other without gaps. A width is a multiple of 4.
namespace binade::backend::cpu::attention {

// Columns of a panel of f64.
inline constexpr int64_t product_width = 16;

// c [m, product_width] = a [m, k] b [k, product_width], or c += a b; rows of a lie a_row apart.
// Each element of c is one chain of sums in ascending k, whatever m is.
void product(int64_t m, int64_t k, const double* a, int64_t a_row, const double* b, double* c,
             bool accumulate);

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
