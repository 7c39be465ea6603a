#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/gemm.h"
#include "binade/backend/cpu/gemm/kernel.h"

// The ways to compute one product; gemm() chooses. All of them want m, n > 0.
namespace binade::backend::cpu {

struct Problem {
  int64_t m, n, k;
  Operand a, b;
  Output c;
  Epilogue epilogue;
};

// Any shape: cache blocks of packed operands, tiles shared among threads.
void gemm_blocked(const Problem& problem, const Kernel& kernel);

// m == 1 or n == 1: a matrix times a vector, nothing packed.
void gemm_skinny(const Problem& problem);

// An operand is f64: sums in f64.
void gemm_f64(const Problem& problem);

// Threads worth waking for so much work: each should have some ten microseconds of it.
int64_t worthwhile_threads(int64_t batch, int64_t m, int64_t n, int64_t k);

}  // namespace binade::backend::cpu
