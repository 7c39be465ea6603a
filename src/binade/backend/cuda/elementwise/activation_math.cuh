#pragma once

#include <type_traits>

#include "binade/backend/cuda/common/fast_math.cuh"
#include "binade/backend/cuda/elementwise/math.cuh"
#include "binade/backend/matmul.h"

// The arithmetic of activation kernels, shared by those that store values and those that quantize
// them, so that both compute the same bits.
namespace binade::backend::cuda {

// For operands of 16 bits: the chip's own exponential and reciprocal. Their relative error of about
// 2^-20 vanishes when results are rounded to 16 bits, and kernels that compute them exactly are
// limited by arithmetic instead of memory.
struct FastFunctions {
  // As __fdividef(1, 1 + __expf(-x)), without their care for denormals, which vanish beside 1.
  static __device__ float sigmoid(float x) {
    return fast_reciprocal(1.0f + fast_exp2(-log2_e * x));
  }

  struct Silu {
    static __device__ float value(float x) { return x * sigmoid(x); }
    static __device__ float gradient(float g, float x) {
      const float gate = sigmoid(x);
      return g * (gate + gate * (x * (1 - gate)));
    }
  };
  struct GeluTanh {
    using Exact = Functions<float>::GeluTanh;
    static __device__ float value(float s) { return s * gate(bounded(s)); }
    static __device__ float gradient(float g, float s) {
      constexpr float linear = Exact::linear, cubic = 3 * Exact::linear * Exact::cubic;
      const float x = bounded(s), open = gate(x);
      return g * (open + open * (x * (linear + cubic * (x * x)) * (1 - open)));
    }
    // Past 20 the gate is 0 or 1; bounding x keeps its square finite.
    static __device__ float bounded(float s) {
      return s != s ? s : std::fmin(std::fmax(s, -20.0f), 20.0f);
    }
    static __device__ float gate(float x) {
      constexpr float linear = Exact::linear, cubic = Exact::linear * Exact::cubic;
      return sigmoid(x * (linear + cubic * (x * x)));
    }
  };
};

__device__ inline bool is_fast(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Calls f with silu for operands of `dtype`.
template <class C, class F>
__device__ inline void with_silu(DType dtype, F&& f) {
  if constexpr (std::is_same_v<C, float>) {
    if (is_fast(dtype)) return f(FastFunctions::Silu());
  }
  f(typename Functions<C>::Silu());
}

// Calls f with the activation for operands of `dtype`, unless it is none.
template <class C, class F>
__device__ inline void with_activation(Activation activation, DType dtype, F&& f) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      f(typename Functions<C>::Relu());
      break;
    case Activation::gelu:
      f(typename Functions<C>::Gelu());
      break;
    case Activation::gelu_tanh:
      if constexpr (std::is_same_v<C, float>) {
        if (is_fast(dtype)) return f(FastFunctions::GeluTanh());
      }
      f(typename Functions<C>::GeluTanh());
      break;
    case Activation::silu:
      with_silu<C>(dtype, f);
      break;
  }
}

// up becomes silu(gate) * up. The operands were of `dtype`.
template <class C, int N>
__device__ inline void swiglu_values(DType dtype, const C (&gate)[N], C (&up)[N]) {
  with_silu<C>(dtype, [&](auto silu) {
#pragma unroll
    for (int i = 0; i < N; ++i) up[i] = silu.value(gate[i]) * up[i];
  });
}

// gate and up become their gradients, and d becomes silu(gate) * up.
template <class C, int N>
__device__ inline void swiglu_gradients(DType dtype, C (&d)[N], C (&gate)[N], C (&up)[N]) {
  with_silu<C>(dtype, [&](auto silu) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C value = silu.value(gate[i]), gradient = d[i];
      gate[i] = silu.gradient(gradient * up[i], gate[i]);
      d[i] = value * up[i];
      up[i] = gradient * value;
    }
  });
}

// d *= act'(v).
template <class C, int N>
__device__ inline void multiply_by_derivative(Activation activation, DType dtype, C (&d)[N],
                                              const C (&v)[N]) {
  with_activation<C>(activation, dtype, [&](auto function) {
#pragma unroll
    for (int i = 0; i < N; ++i) d[i] = function.gradient(d[i], v[i]);
  });
}

// d *= act'(v), and v becomes act(v).
template <class C, int N>
__device__ inline void derivative_and_value(Activation activation, DType dtype, C (&d)[N],
                                            C (&v)[N]) {
  with_activation<C>(activation, dtype, [&](auto function) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      d[i] = function.gradient(d[i], v[i]);
      v[i] = function.value(v[i]);
    }
  });
}

}  // namespace binade::backend::cuda
