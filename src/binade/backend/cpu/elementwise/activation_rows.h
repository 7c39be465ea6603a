#pragma once

#include <cstdint>

#include "binade/backend/matmul.h"

// What activations do with n elements. Each function is chosen for the CPU at hand; the f64 ones go
// through the C library. Outputs may be any of the inputs.
namespace binade::backend::cpu {

template <class T>
struct ActivationRows {
  // y = silu(gate) * up
  void (*swiglu)(const T* gate, const T* up, int64_t n, T* y);
  // dgate and dup from dy.
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, int64_t n, T* dgate, T* dup);
  // dx = dy * act'(x)
  void (*backward)(Activation activation, const T* dy, const T* x, int64_t n, T* dx);
  int64_t lanes;  // of the vectors in use
};

// Those for T, float or double.
template <class T>
const ActivationRows<T>& activation_rows();

}  // namespace binade::backend::cpu
