#pragma once

#include <cstdint>

// Functions of softmax and cross entropy on one row of n elements, chosen for the CPU they run on;
// those of double use the C library's exp.
namespace binade::backend::cpu {

template <class T>
struct SoftmaxRows {
  // The largest element, -infinity for n = 0; unspecified if an element is NaN.
  T (*max)(const T* x, int64_t n);
  T (*sum)(const T* x, int64_t n);
  // Sum of shift - x.
  T (*gap_sum)(const T* x, T shift, int64_t n);
  T (*dot)(const T* a, const T* b, int64_t n);
  // Sum of exp(x - shift).
  T (*exp_sum)(const T* x, T shift, int64_t n);
  // y = exp(x - shift) * scale; y may be x.
  void (*exp_scaled)(const T* x, T shift, T scale, int64_t n, T* y);
  // dx = y * (dy - offset): softmax's gradient.
  void (*gradient)(const T* dy, const T* y, T offset, int64_t n, T* dx);
  // dx = dy - exp(y) * total: log softmax's gradient.
  void (*log_gradient)(const T* dy, const T* y, T total, int64_t n, T* dx);
};

// T is float or double.
template <class T>
const SoftmaxRows<T>& softmax_rows();

}  // namespace binade::backend::cpu
