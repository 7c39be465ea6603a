#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

// Functions on one row of n elements, chosen for the CPU they run on. An output may be one of the
// inputs.
namespace binade::backend::cpu {

// How a row is normalized: (x - center) * scale * weight + bias.
template <class T>
struct RowNorm {
  T center, scale;
  const T* weight;
  const T* bias = nullptr;  // optional
};

// A row and its output's gradient, with the statistics it was normalized by.
template <class T>
struct RowGradient {
  const T* dy;
  const T* x;
  const T* weight = nullptr;  // optional for `gradient`: a constant weight is part of the scale
  T center, scale;
};

// Sums over a row of g = dy * weight and of g * (x - center).
template <class T>
struct RowSums {
  T plain, centered;
};

// slope * (x - center) + offset: the gradient that reaches x through the statistics.
template <class T>
struct Line {
  T slope, offset;
};

template <class T>
struct NormRows {
  T (*sum)(const T* x, int64_t n);
  // y = a + b; returns the sum of y.
  T (*add)(const T* a, const T* b, int64_t n, T* y);
  // Sum of (x - center)^2.
  T (*square_sum)(const T* x, T center, int64_t n);
  // Sum of dy * (x - center).
  T (*centered_dot)(const T* dy, const T* x, T center, int64_t n);
  // In the same pass dweight += dy * (x - center) * scale and dbias += dy, unless they are null.
  RowSums<T> (*gradient_sums)(const RowGradient<T>& row, int64_t n, T* dweight, T* dbias);
  void (*normalize)(const T* x, const RowNorm<T>& norm, int64_t n, T* y);
  // y = (x - center) * scale + offset.
  void (*affine)(const T* x, T center, T scale, T offset, int64_t n, T* y);
  // dx = scale * dy * weight + line.
  void (*gradient)(const RowGradient<T>& row, const Line<T>& line, int64_t n, T* dx);
  // dx = scale * dy * weight + line + other.
  void (*gradient_plus)(const RowGradient<T>& row, const Line<T>& line, const T* other, int64_t n,
                        T* dx);
};

// T is float or double.
template <class T>
const NormRows<T>& norm_rows();

// y [rows, width] = the norm of x with known statistics (no mean: rms), the same bits as
// NormKernels::forward.
void normalize(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& mean, const TensorView& rstd, const TensorView& y);

}  // namespace binade::backend::cpu
