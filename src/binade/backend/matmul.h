#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

// What happens to a product before it is stored: y = act(alpha * a b + beta * y + bias).
struct Epilogue {
  float alpha = 1;
  float beta = 0;        // 0 never reads y
  TensorView bias = {};  // [n], optional
  Activation activation = Activation::none;
  TensorView pre_activation = {};  // shape of y, optional: receives the value before `activation`
  bool tf32 = false;               // round f32 operands to TF32
  bool fast_accumulation = false;  // FP8 on devices that offer it
  TensorView scale_a = {};         // FP8 operands: inverse scales, f32 scalars
  TensorView scale_b = {};
};

// y [batch, m, n] = a [batch, m, k] x b [batch, k, n], any strides, a stride of 0 repeats a batch.
// Accumulates in f32 (f64 for f64).
struct MatmulKernels {
  void (*matmul)(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue);
};

}  // namespace binade::backend
