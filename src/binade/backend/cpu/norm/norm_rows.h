#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

// What norms do with a row of n elements. Each function is chosen for the CPU at hand. Outputs may
// be any of the inputs.
namespace binade::backend::cpu {

template <class T>
struct NormRows {
  T (*sum)(const T* x, int64_t n);
  // y = a + b; returns the sum of y.
  T (*add)(const T* a, const T* b, int64_t n, T* y);
  // Sum of (x - center)^2.
  T (*square_sum)(const T* x, T center, int64_t n);
  // Sum of dy * (x - center).
  T (*centered_dot)(const T* dy, const T* x, T center, int64_t n);
  // The sums of g = dy * weight and of g * (x - center). On the way, dweight += dy * (x - center) *
  // scale and dbias += dy, unless they are null.
  void (*gradient_sums)(const T* dy, const T* weight, const T* x, T center, T scale, int64_t n,
                        T* plain, T* centered, T* dweight, T* dbias);
  // y = (x - center) * scale * weight + bias; bias may be null.
  void (*normalize)(const T* x, T center, T scale, const T* weight, const T* bias, int64_t n, T* y);
  // y = (x - center) * scale + offset.
  void (*affine)(const T* x, T center, T scale, T offset, int64_t n, T* y);
  // dx = scale * dy * weight + slope * (x - center) + offset; weight may be null.
  void (*gradient)(const T* dy, const T* weight, const T* x, T center, T scale, T slope, T offset,
                   int64_t n, T* dx);
  // The same plus `other`; weight may not be null.
  void (*gradient_plus)(const T* dy, const T* weight, const T* x, T center, T scale, T slope,
                        T offset, const T* other, int64_t n, T* dx);
};

// Those for T, float or double.
template <class T>
const NormRows<T>& norm_rows();

// y [rows, width] = the norm of x by given statistics (no mean: rms), as norm.forward makes it.
void normalize(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& mean, const TensorView& rstd, const TensorView& y);

}  // namespace binade::backend::cpu
