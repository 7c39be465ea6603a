#include "binade/base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/execution.h"
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

std::atomic<int>& thread_count() {
  static std::atomic<int> count = threads_from_environment();
  return count;
}

// Of the thread: those that its work is handed to may have cores to spare.
constinit execution::Slot<bool> thread_serial(execution::Belongs::to_thread);

// The number of forks this process descends from.
std::atomic<int> forks = 0;

// The team that this thread ran last, and the value of `forks` then.
struct Team {
  int size = 1;
  int forks = 0;
};
// OpenMP's teams are per thread.
thread_local Team thread_team;

void count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
}

// The ids of threads that have exited are still counted by the system until they leave this folder.
void wait_for_exit(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread);
  while (access(path.c_str(), F_OK) == 0) std::this_thread::yield();
}

// Starts up to `wanted` threads at once, ends them and returns how many could be started.
int startable_threads(int wanted) {
  const auto count = static_cast<size_t>(wanted);
  std::vector<pid_t> ids(count);
  std::vector<std::thread> started;
  started.reserve(count);
  std::latch all_started(1);
  try {
    for (size_t i = 0; i < count; ++i) {
      started.emplace_back([&id = ids[i], &all_started] {
        id = gettid();
        all_started.wait();
      });
    }
  } catch (const std::system_error&) {
    // `started` holds those that could be.
  }
  all_started.count_down();
  for (std::thread& thread : started) thread.join();
  for (size_t i = 0; i < started.size(); ++i) wait_for_exit(ids[i]);
  return static_cast<int>(started.size());
}

// The size of the team for a loop of this thread; 1 if it must run serially. OpenMP ends the
// process if it cannot start a thread, so a team larger than the last is tried out first.
int team_size() {
  const int count = thread_count().load(std::memory_order_relaxed);
  Team& team = thread_team;
  if (count <= 1 || *thread_serial || omp_in_parallel()) return 1;
  if (team.size > 1 && team.forks != forks.load(std::memory_order_relaxed)) return 1;
  if (count <= team.size) return team.size = count;  // OpenMP ends the others
  count_forks();
  const int possible = team.size + startable_threads(count - team.size);
  if (possible < count) {
    std::fprintf(stderr, "binade: using %d threads: the system refuses to start %d\n", possible,
                 count);
    set_threads(possible);
  }
  team = {possible, forks.load(std::memory_order_relaxed)};
  return possible;
}

// Calls body(worker) on a team of the given size.
void run_team(int size, int64_t workers, FunctionRef<void(int64_t)> body) {
  std::exception_ptr error;
  // Always the full team, even with less work: OpenMP ends the threads a smaller team does not
  // need, and the next region would have to start them again.
#pragma omp parallel num_threads(size)
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

}  // namespace

SerialScope::SerialScope() : scope_(*thread_serial, true) {}

int threads() { return thread_count().load(std::memory_order_relaxed); }

void set_threads(int count) {
  if (count < 1 || count > 1024) {
    fail("set_threads",
         {.argument = "count", .expected = "1 to 1024", .found = std::to_string(count)});
  }
  thread_count().store(count, std::memory_order_relaxed);
}

void on_each_thread(int64_t workers, FunctionRef<void(int64_t)> body) {
  const int size = workers <= 1 ? 1 : team_size();
  if (size == 1) return body(0);
  run_team(size, workers, body);
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = divide_up(n, grain);
  const int size = grains <= 1 ? 1 : team_size();
  if (size == 1) return body(0, n);
  constexpr int64_t ranges_per_thread = 4;
  const int64_t ranges = std::min<int64_t>(grains, ranges_per_thread * size);
  const auto begin = [&](int64_t range) { return std::min(n, grains * range / ranges * grain); };
  WorkQueues queues(size, ranges);
  run_team(size, ranges, [&](int64_t worker) {
    queues.run(worker, [&](int64_t range) { body(begin(range), begin(range + 1)); });
  });
}

}  // namespace binade
