#pragma once

#include <cstdint>

#include "binade/tensor/quantized.h"

namespace binade::backend {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

// What happens to a product before it is stored: y = act(alpha * a b + beta * y + bias). Where y
// has 16 bits, act's argument may be rounded to its type first: the CPU does that, GPUs do not.
struct Epilogue {
  float alpha = 1;
  float beta = 0;        // 0 never reads y
  TensorView bias = {};  // [n], optional
  Activation activation = Activation::none;
  TensorView pre_activation = {};  // shape of y, optional: receives the value before `activation`
  bool tf32 = false;               // round f32 operands to TF32
  bool fast_accumulation = false;  // FP8 on devices that offer it
  // FP8 operands: inverse scales, as Quantized keeps them, of a [m, k] and of b's transpose [n, k].
  TensorView scale_a = {};
  TensorView scale_b = {};
  ScaleGroup group_a = {};
  ScaleGroup group_b = {};
};

// y [batch, m, n] = a [batch, m, k] x b [batch, k, n], any strides, a stride of 0 repeats a batch.
// Accumulates in f32 (f64 for f64). An operand with scales finer than a tensor is one matrix, dense
// along the summed axis; devices that do not multiply such operands multiply their values in f32.
struct MatmulKernels {
  void (*matmul)(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue);
};

// Whether an operand has scales finer than a tensor.
bool has_groups(const Epilogue& epilogue);

struct QuantizeKernels;

// A product of operands with scales finer than a tensor by way of their values in f32, for
// implementations of `matmul`: the kernels are those of the operands' device.
void matmul_dequantized(Device device, const MatmulKernels& matmul, const QuantizeKernels& quantize,
                        TensorView a, TensorView b, TensorView y, Epilogue epilogue);

}  // namespace binade::backend
