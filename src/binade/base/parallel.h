#pragma once

#include <cstdint>

#include "binade/base/function_ref.h"

namespace binade {

// Calls body(begin, end) over disjoint ranges that cover [0, n), from several threads.
// Ranges start at multiples of `grain`, but how many there are depends on the thread count:
// a body must give the same result however [0, n) is cut. A thread gets a few ranges, and what
// slower ones have left. Calls inside a body run serially. The first exception thrown by a body is
// rethrown here.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

// Calls body(worker) on at most `workers` threads, fewer where there are no more: whatever there is
// to do must get done by any number of them. Exceptions and calls inside a body as above.
void on_each_thread(int64_t workers, FunctionRef<void(int64_t)> body);

// Threads used by parallel_for: set_threads' value, else BINADE_THREADS, else what OpenMP would use
// (OMP_NUM_THREADS, else all cores).
int threads();
void set_threads(int count);

}  // namespace binade
