#pragma once

#include <cstdint>

#include "binade/base/function_ref.h"
#include "binade/base/restore.h"

namespace binade {

// Calls body(begin, end) on several threads, over disjoint ranges that cover [0, n). Ranges start
// at multiples of `grain`; their number depends on the thread count, so results must not depend on
// where [0, n) is split. Each thread gets a few ranges and steals more when done. Nested calls run
// serially. Rethrows the first exception a body throws.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

// Calls body(worker) on up to `workers` threads. Fewer may run, so the work must complete with any
// number of them. Exceptions and nested calls behave as above.
void on_each_thread(int64_t workers, FunctionRef<void(int64_t)> body);

// Number of threads parallel_for uses: the value of set_threads, else BINADE_THREADS, else OpenMP's
// default (OMP_NUM_THREADS, else all cores). Fewer, with a line on stderr, if the system refuses to
// start that many (ulimit -u).
int threads();
// Takes effect at the next loop of any thread; running loops finish as they are.
void set_threads(int count);

// After a fork, loops of the child run serially on the thread that forked, if it had run parallel
// loops before: its team of threads exists only in the parent.

// For its lifetime, both functions above run serially on this thread: for work in the background,
// whose own team of threads would slow down the others.
class [[nodiscard]] SerialScope {
 public:
  SerialScope();

 private:
  Restore<bool> scope_;
};

}  // namespace binade
