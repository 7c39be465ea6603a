#include "binade/base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>

#include "binade/base/error.h"

namespace binade {
namespace {

int threads_from_environment() {
  const char* text = std::getenv("BINADE_THREADS");
  if (text == nullptr || *text == '\0') return std::max(1, omp_get_max_threads());
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > 1024) {
    fail("parallel",
         {.argument = "BINADE_THREADS", .expected = "a number from 1 to 1024", .found = text});
  }
  return static_cast<int>(count);
}

int& thread_count() {
  static int count = threads_from_environment();
  return count;
}

}  // namespace

int threads() { return thread_count(); }

void set_threads(int count) {
  if (count < 1 || count > 1024) {
    fail("set_threads",
         {.argument = "count", .expected = "1 to 1024", .found = std::to_string(count)});
  }
  thread_count() = count;
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (n + grain - 1) / grain;
  if (thread_count() <= 1 || pieces <= 1 || omp_in_parallel()) {
    body(0, n);
    return;
  }
  std::exception_ptr error;
  // Always the whole team, be there work for all or not: a smaller one would end the threads it has
  // no need of, and the next region would pay for starting them again.
#pragma omp parallel num_threads(thread_count())
  {
    // The runtime may grant fewer threads than asked for.
    const int64_t workers = std::min<int64_t>(omp_get_num_threads(), pieces);
    const int64_t rank = omp_get_thread_num();
    const int64_t begin = pieces * rank / workers * grain;
    const int64_t end = std::min(n, pieces * (rank + 1) / workers * grain);
    try {
      if (rank < workers) body(begin, end);
    } catch (...) {
#pragma omp critical(binade_parallel_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace binade
