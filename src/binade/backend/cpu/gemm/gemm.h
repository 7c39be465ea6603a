#pragma once

#include <cstdint>

#include "binade/backend/matmul.h"

namespace binade::backend::cpu {

// A matrix in memory, or a batch of them. Strides count elements and may be anything, so a
// transposed view costs nothing; access is fast if one of the two strides is 1. A batch stride of 0
// repeats the matrix.
struct InputMatrix {
  const void* data;
  DType dtype;
  int64_t row_stride, col_stride;
  int64_t batch_stride = 0;
};

struct OutputMatrix {
  void* data;
  DType dtype;
  int64_t row_stride, col_stride;
  int64_t batch_stride = 0;
};

// C = epilogue(A B) for `batch` pairs of A (m x k) and B (k x n). Any size may be 0 (k = 0: AB
// counts as 0).
struct GemmProblem {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  InputMatrix a = {}, b = {};
  OutputMatrix c = {};
  // `y` is C. The bias is dense and the same for the whole batch, the pre-activation's rows are
  // dense; scales are ignored.
  Epilogue epilogue = {};
};

// Sums are in f32, or in f64 if an operand is f64. If both operands have types that bf16 holds
// exactly (bf16, e4m3, e5m2) and the CPU has bf16 matrix instructions, those multiply; every other
// pair is widened to f32 first. A product of two bf16 is exact in f32 either way, but the bf16
// instructions flush subnormal operands and sums to zero and may round each partial sum less
// accurately than an FMA does: |error| <= k * 2^-23 * sum|a||b| holds for all kernels.
//
// A given CPU level gives the same bits for any number of threads, and an output the same bits
// whatever other rows and columns there are. C may not overlap an operand.
// Inside a parallel_for body the call runs on the calling thread alone.
void gemm(const GemmProblem& problem);

// The address `elements` elements after `data`.
inline void* advance(void* data, DType dtype, int64_t elements) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}
inline const void* advance(const void* data, DType dtype, int64_t elements) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}

}  // namespace binade::backend::cpu
