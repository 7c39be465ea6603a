#pragma once

#include <cstdint>

#include "binade/tensor/dtype.h"

// GEMMs by cuBLASLt: descriptors built once per shape, algorithms chosen by measurement.
namespace binade::backend::cuda {

// A column-major matrix in memory, or a batch of them. Counts are in elements.
struct BlasMatrix {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t leading = 0;  // distance of columns
  int64_t batch_stride = 0;
};

// Which elements of an FP8 operand share a scale, and the layout of the scales. `outer` is the axis
// that is not summed over.
enum class BlasScale : uint8_t {
  tensor,  // one scale
  outer,   // one per outer index
  line,    // one per 128 elements along the summed axis: [ceil(depth / 128), outer]
  block,   // one per 128 x 128: [ceil(outer / 128), ceil(depth / 128) rounded up to fours]
};

// d [rows x columns] = alpha * op(a) op(b) + beta * d (+ bias along the rows), then GELU (its tanh
// form) if `gelu`, whose arguments are written to aux if it has an address. op(a) is rows x depth
// and op(b) depth x columns.
struct BlasGemm {
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  BlasMatrix a, b, d;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  const void* device_scalars = nullptr;  // if set, alpha and beta are read from device memory
  const float* scale_a = nullptr;        // device addresses, for FP8
  const float* scale_b = nullptr;
  BlasScale scaling_a = BlasScale::tensor, scaling_b = BlasScale::tensor;
  // Of an FP8 d, which is multiplied by scale_d and saturated: beta is 0, and there is no bias or
  // GELU. amax_d, if set, becomes the largest magnitude before that.
  const float* scale_d = nullptr;
  float* amax_d = nullptr;
  bool tf32 = false;
  bool fast_accumulation = false;
  const void* bias = nullptr;  // d's type
  bool gelu = false;
  BlasMatrix aux;  // d's type
};

// Runs the GEMM on the active device's stream. False, with nothing written, if cuBLASLt has no
// algorithm for it. On first use, a large GEMM is timed with several algorithms and the fastest is
// remembered, also for later processes (tuning.h); without tuning, the algorithm that cuBLASLt's
// heuristic ranks first is used.
bool blas_gemm(const BlasGemm& gemm);

}  // namespace binade::backend::cuda
