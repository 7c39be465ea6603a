#pragma once

#include <cstdint>

#include "binade/backend/matmul.h"

// Activations of n elements, chosen for the CPU they run on; those of double use the C library. An
// output may be one of the inputs.
namespace binade::backend::cpu {

template <class T>
struct ActivationRows {
  // y = silu(gate) * up
  void (*swiglu)(const T* gate, const T* up, int64_t n, T* y);
  // dgate and dup from dy.
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, int64_t n, T* dgate, T* dup);
  // dx = dy * act'(x)
  void (*backward)(Activation activation, const T* dy, const T* x, int64_t n, T* dx);
  int64_t lanes;  // elements per vector
};

// T is float or double.
template <class T>
const ActivationRows<T>& activation_rows();

}  // namespace binade::backend::cpu
