#pragma once

#include <cstdint>

#include "binade/formats/number.h"

// Operations on one panel of an attention tile, compiled for each instruction set. A panel is
// `rows` rows of `width` f32 or f64 without gaps; a width is a multiple of 4.
namespace binade::backend::cpu::attention {

// Columns of an f64 panel: a multiple of the columns that every instruction set holds in registers.
inline constexpr int64_t f64_panel_width = 16;

// c [m, f64_panel_width] = a [m, k] b [k, f64_panel_width], or c += a b; rows of a are lda apart.
struct F64PanelMatmul {
  int64_t m, k;
  const double* a;
  int64_t lda;
  const double* b;
  double* c;
  bool accumulate;
};

// Each element of c is one chain of sums in ascending k, for any m.
void multiply_f64_panel(const F64PanelMatmul& matmul);

// panel[i, j] *= factors[j].
void scale_columns(int64_t rows, int64_t width, const float* factors, float* panel);
void scale_columns(int64_t rows, int64_t width, const double* factors, double* panel);

// out[j, i] = factor * in[i, j] for `rows` x `columns` of `in`.
template <class T, class Out = T>
struct Transpose {
  int64_t rows, columns;
  T factor;
  const T* in;
  int64_t ld_in;
  Out* out;
  int64_t ld_out;
};

void transpose(const Transpose<float>& call);
void transpose(const Transpose<double>& call);

// Rounds as softmax_gradient() does, for CPUs that multiply bf16.
void transpose(const Transpose<float, bf16>& call);

// out[i] = sum of a[i, j] * b[i, j] over j < n; rows are ld_a and ld_b apart. Sum is double for
// double, float otherwise.
template <class T, class Sum>
struct RowDots {
  int64_t rows, n;
  const T* a;
  int64_t ld_a;
  const T* b;
  int64_t ld_b;
  Sum* out;
};

void row_dots(const RowDots<float, float>& call);
void row_dots(const RowDots<f16, float>& call);
void row_dots(const RowDots<bf16, float>& call);
void row_dots(const RowDots<double, double>& call);

}  // namespace binade::backend::cpu::attention
