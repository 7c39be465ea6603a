#pragma once

#include <cstdint>

#include "binade/tensor/dtype.h"

namespace binade::backend::cpu {

// Eight rows of a matrix, contiguous in k, times a vector: each sum is one chain of FMAs per block
// of k, and the blocks' sums are stored, or added to earlier ones, in order.
struct RowDots {
  const void* rows;
  DType dtype;  // f32, f16 or bf16
  int64_t stride;
  const float* x;
  int64_t k, block;
  float* sums;
  bool accumulate;
};

}  // namespace binade::backend::cpu
