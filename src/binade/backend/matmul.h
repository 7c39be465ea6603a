#pragma once

#include "binade/backend/activation_function.h"
#include "binade/tensor/quantized.h"

namespace binade::backend {

// Applied to a matmul's result before it is stored: y = act(alpha * a b + beta * y + bias), in f32
// (f64 for f64). If y has 16 bits and there is an activation, CPUs round act's argument to y's type
// first, as if matmul and activation were two ops; GPUs may.
struct Epilogue {
  float alpha = 1;
  float beta = 0;        // 0 never reads y
  TensorView bias = {};  // [n], optional
  Activation activation = Activation::none;
  TensorView pre_activation = {};  // shape of y, optional: receives act's argument
  bool tf32 = false;               // round f32 operands to TF32
  bool fast_accumulation = false;  // of quantized operands, if the device offers it
  // Quantized operands: inverse scales, as Quantized stores them, of a [m, k] and of b's transpose
  // [n, k].
  TensorView scale_a = {};
  TensorView scale_b = {};
  ScaleGroup group_a = {};
  ScaleGroup group_b = {};
  // A quantized y of one matrix: y = values * scale_y (f32 [1]), saturated. amax_y (f32 [1],
  // optional) must be 0 and becomes the largest magnitude of the values.
  TensorView scale_y = {};
  TensorView amax_y = {};
};

// x [m, 2 n] = a [m, k] weight^T + bias, weight being [2 n, k], and y [m, n] = swiglu(x) of the
// rounded x. Matrices are dense.
struct LinearSwiGlu {
  TensorView a = {}, weight = {}, bias = {};
  TensorView x = {}, y = {};
};

struct ActivationBackward;
struct SwiGluBackward;
struct LinearCrossEntropy;

// y [batch, m, n] = a [batch, m, k] x b [batch, k, n], any strides, a stride of 0 repeats a batch.
// Accumulates in f32 (f64 for f64). An operand with scales finer than a tensor is one matrix, dense
// along the summed axis; devices that cannot multiply such operands dequantize them to f32 first.
//
// The next two: args.dy [m, n] = a [m, k] x b [k, n], then the kernel of activation.h that reads
// it. Devices that compute both in one pass leave args.dy unwritten.
//
// The last two compute SwiGLU, or a loss and its gradients, within the matmul; only for arguments
// for which fuses_swiglu() or fuses_cross_entropy().
struct MatmulKernels {
  void (*matmul)(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue);
  void (*matmul_activation_backward)(TensorView a, TensorView b, const ActivationBackward& args);
  void (*matmul_swiglu_backward)(TensorView a, TensorView b, const SwiGluBackward& args);
  void (*matmul_swiglu)(const LinearSwiGlu& args) = nullptr;
  void (*matmul_cross_entropy)(const LinearCrossEntropy& args) = nullptr;
};

// Whether the kernel of the device supports these arguments and is faster than a matmul and a
// kernel for SwiGLU or the loss.
bool fuses_swiglu(const LinearSwiGlu& args, Device device);
bool fuses_cross_entropy(const LinearCrossEntropy& args, Device device);

// For implementations of `matmul`.

// Whether an operand has scales finer than a tensor.
bool has_groups(const Epilogue& epilogue);

// Fails unless a, b, y, the bias and the pre-activation have floating types.
void require_floating(const TensorView& a, const TensorView& b, const TensorView& y,
                      const Epilogue& epilogue);

// A batch of matrices with rows and columns exchanged.
TensorView transposed(TensorView x);

// A matrix as a batch of one, and the matrix of such a batch.
TensorView batch_of_one(TensorView x);
TensorView only_matrix(TensorView batch);

struct QuantizeKernels;

// A device and its kernels.
struct MatmulDevice {
  Device device;
  const MatmulKernels& matmul;
  const QuantizeKernels& quantize;
};

// Multiplies into f32 and quantizes that, for `scale_y`.
void matmul_quantized(const MatmulDevice& on, TensorView a, TensorView b, TensorView y,
                      Epilogue epilogue);

// Dequantizes the operands that have scales finer than a tensor to f32 and multiplies those.
void matmul_dequantized(const MatmulDevice& on, TensorView a, TensorView b, TensorView y,
                        Epilogue epilogue);

}  // namespace binade::backend
