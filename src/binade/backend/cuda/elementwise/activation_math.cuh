#pragma once

#include "binade/backend/cuda/elementwise/math.cuh"
#include "binade/backend/matmul.h"

// The arithmetic of activation kernels, shared by those that store values and those that quantize
// them to FP8, so that both compute the same bits.
namespace binade::backend::cuda {

template <class C>
__device__ inline C swiglu_value(C gate, C up) {
  return Functions<C>::Silu::value(gate) * up;
}

// gate and up become their gradients.
template <class C>
__device__ inline void swiglu_gradient(C d, C& gate, C& up) {
  using Silu = typename Functions<C>::Silu;
  const C g = gate;
  gate = Silu::gradient(d * up, g);
  up = d * Silu::value(g);
}

// d *= act'(v).
template <class C, int N>
__device__ inline void multiply_by_derivative(Activation activation, C (&d)[N], const C (&v)[N]) {
  const auto by = [&](auto function) {
#pragma unroll
    for (int i = 0; i < N; ++i) d[i] = function.gradient(d[i], v[i]);
  };
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      by(typename Functions<C>::Relu());
      break;
    case Activation::gelu:
      by(typename Functions<C>::Gelu());
      break;
    case Activation::gelu_tanh:
      by(typename Functions<C>::GeluTanh());
      break;
    case Activation::silu:
      by(typename Functions<C>::Silu());
      break;
  }
}

}  // namespace binade::backend::cuda
