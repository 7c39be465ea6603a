#pragma once

#include "binade/backend/cuda/elementwise/math.cuh"
#include "binade/backend/matmul.h"

// What activation kernels compute, shared by those that store values and those that store their FP8
// codes: both give the same bits.
namespace binade::backend::cuda {

template <class C>
__device__ inline C swiglu_value(C gate, C up) {
  return gate * sigmoid(gate) * up;
}

// gate and up become their gradients.
template <class C>
__device__ inline void swiglu_gradient(C d, C& gate, C& up) {
  const C g = gate;
  gate = gradient_value(Unary::silu, d * up, g, C{0}, C{0});
  up = d * (g * sigmoid(g));
}

// d *= act'(v).
template <class C, int N>
__device__ inline void times_slope(Activation activation, C (&d)[N], const C (&v)[N]) {
  // `op` is known when the kernel is compiled.
  const auto by = [&](Unary op) {
#pragma unroll
    for (int i = 0; i < N; ++i) d[i] = gradient_value(op, d[i], v[i], C{0}, C{0});
  };
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      by(Unary::relu);
      break;
    case Activation::gelu:
      by(Unary::gelu);
      break;
    case Activation::gelu_tanh:
      by(Unary::gelu_tanh);
      break;
    case Activation::silu:
      by(Unary::silu);
      break;
  }
}

}  // namespace binade::backend::cuda
