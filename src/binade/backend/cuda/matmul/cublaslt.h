#pragma once

#include <cstdint>

#include "binade/tensor/dtype.h"

// Products by cuBLASLt: descriptors built once per shape, algorithms chosen by measurement.
namespace binade::backend::cuda {

// A column-major matrix, or a batch of them, where it lies. Counts are in elements.
struct BlasMatrix {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t leading = 0;  // from column to column
  int64_t batch_stride = 0;
};

// What of an FP8 operand shares a scale, and how the scales lie. Outer counts the operand's rows or
// columns that are not summed over.
enum class BlasScale : uint8_t {
  tensor,  // one
  outer,   // one for each outer index
  line,    // one for 128 along the summed axis: [ceil(depth / 128), outer]
  block,   // one for 128 x 128: [ceil(outer / 128), ceil(depth / 128) rounded up to fours]
};

// d [rows x columns] = alpha * op(a) op(b) + beta * d (+ bias along the rows), then perhaps GELU
// (its tanh form), whose arguments go to aux where it has an address. op(a) is rows x depth and
// op(b) depth x columns.
struct BlasProduct {
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  BlasMatrix a, b, d;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  const void* device_scalars = nullptr;  // alpha and beta in device memory, in their place
  const float* scale_a = nullptr;        // device addresses, for FP8
  const float* scale_b = nullptr;
  BlasScale scaling_a = BlasScale::tensor, scaling_b = BlasScale::tensor;
  bool tf32 = false;
  bool fast_accumulation = false;
  const void* bias = nullptr;  // d's type
  bool gelu = false;
  BlasMatrix aux;  // d's type
};

// Runs the product on the active device's stream. False, with nothing done, where cuBLASLt has no
// algorithm for it. A large product met for the first time is tried with several algorithms and the
// fastest kept, for later processes as well; BINADE_TUNE=0 in the environment takes the one that
// cuBLASLt guesses.
bool blas_matmul(const BlasProduct& product);

}  // namespace binade::backend::cuda
