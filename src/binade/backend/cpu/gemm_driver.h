#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

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

// Cuts the items into as many ranges as there are workers. Each worker takes its own one by one and
// then what others have left: a slow neighbour, or a small tile at the edge, costs no waiting, and
// the rows a core wrote last are mostly the rows it reads next. Who computes an item does not show
// in its result.
template <class Body>
void share(int64_t workers, int64_t items, Body body) {
  workers = std::min(workers, items);
  struct alignas(64) Next {
    std::atomic<int64_t> item;
  };
  const auto next = std::make_unique<Next[]>(static_cast<size_t>(workers));
  const auto first = [&](int64_t worker) { return items * worker / workers; };
  for (int64_t i = 0; i < workers; ++i) next[i].item.store(first(i), std::memory_order_relaxed);
  const auto take_all = [&](int64_t owner) {
    for (int64_t i;
         (i = next[owner].item.fetch_add(1, std::memory_order_relaxed)) < first(owner + 1);) {
      body(i);
    }
  };
  parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      for (int64_t i = 0; i < workers; ++i) take_all((worker + i) % workers);
    }
  });
}

}  // namespace binade::backend::cpu
