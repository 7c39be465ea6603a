#pragma once

#include <cstdint>

#include "binade/backend/cpu/gemm/gemm.h"
#include "binade/backend/cpu/gemm/kernel.h"

// Implementations of one matmul; gemm() chooses. All need m, n > 0 and ignore the batch.
namespace binade::backend::cpu {

// Any shape: cache blocks of packed operands, tiles distributed over threads.
void gemm_blocked(const GemmProblem& problem, const Kernel& kernel);

// m == 1 or n == 1: a matrix times a vector, with the bits that gemm_blocked gives.
void gemm_vector(const GemmProblem& problem, const Kernel& kernel);

// An operand is f64: sums in f64.
void gemm_f64(const GemmProblem& problem);

// Threads worth waking for so much work: each should get at least some ten microseconds of it.
int64_t worthwhile_threads(int64_t batch, int64_t m, int64_t n, int64_t k);

}  // namespace binade::backend::cpu
