#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "binade/backend/cpu/gemm.h"
#include "binade/backend/cpu/gemm_kernel.h"
#include "binade/base/parallel.h"

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

// Lets every worker take the next item until none is left: a slow neighbour, or a small tile at
// the edge, costs no waiting. Who computes an item does not show in its result.
template <class Body>
void share(int64_t workers, int64_t items, Body body) {
  std::atomic<int64_t> next = 0;
  parallel_for(std::min(workers, items), 1, [&](int64_t, int64_t) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) body(i);
  });
}

}  // namespace binade::backend::cpu
