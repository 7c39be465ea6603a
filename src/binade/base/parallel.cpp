#include "binade/base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/work_stealing.h"

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

thread_local bool thread_serial = false;

bool runs_serially() { return thread_count() <= 1 || thread_serial || omp_in_parallel(); }

}  // namespace

SerialScope::SerialScope() : scope_(thread_serial, true) {}

int threads() { return thread_count(); }

void set_threads(int count) {
  if (count < 1 || count > 1024) {
    fail("set_threads",
         {.argument = "count", .expected = "1 to 1024", .found = std::to_string(count)});
  }
  thread_count() = count;
}

void on_each_thread(int64_t workers, FunctionRef<void(int64_t)> body) {
  if (workers <= 1 || runs_serially()) return body(0);
  std::exception_ptr error;
  // Always the full team, even with less work: OpenMP ends the threads a smaller team does not
  // need, and the next region would have to start them again.
#pragma omp parallel num_threads(thread_count())
  {
    const int64_t worker = omp_get_thread_num();
    try {
      if (worker < workers) body(worker);
    } catch (...) {
#pragma omp critical(binade_parallel_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = divide_up(n, grain);
  if (grains <= 1 || runs_serially()) return body(0, n);
  constexpr int64_t ranges_per_thread = 4;
  const int64_t ranges = std::min<int64_t>(grains, ranges_per_thread * thread_count());
  const auto begin = [&](int64_t range) { return std::min(n, grains * range / ranges * grain); };
  WorkQueues queues(thread_count(), ranges);
  on_each_thread(ranges, [&](int64_t worker) {
    queues.run(worker, [&](int64_t range) { body(begin(range), begin(range + 1)); });
  });
}

}  // namespace binade
