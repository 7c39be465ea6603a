#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/backend/cpu/gemm/pack.h"

namespace binade::backend::cpu {

// A matrix, whose rows are the outputs, times a vector.
struct VectorProduct {
  OperandRows matrix, vector;  // of the vector, one row
  int64_t outputs, k;
  float* sums;  // the outputs, followed by memory for `spare` more

  static constexpr int64_t spare = 32;          // panels and vectors are written whole
  static constexpr int64_t work_grain = 32768;  // multiply-adds worth waking a thread for
};

// The sums that gemm_blocked has with this kernel, bit for bit.
void multiply_by_fma(const VectorProduct& product, const Kernel& kernel);
void multiply_packed(const VectorProduct& product, const Kernel& kernel);

}  // namespace binade::backend::cpu
