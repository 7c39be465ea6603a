// Included by every source that scripts/mutate plants faults in. BINADE_MUTANT=N switches fault N
// on; with -1 each place says once per test that it was reached, in the file that
// BINADE_MUTANT_REACHED names.
#pragma once
#ifdef __CUDACC__
namespace binade {
__host__ __device__ constexpr bool mutant_active(int) { return false; }
}  // namespace binade
#else
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
namespace binade {
namespace mutants {

inline constexpr int recording = -1;
inline constexpr int max_places = 1 << 16;

// Globals rather than statics in functions, because some places are in inner loops.
inline const int active = [] {
  const char* text = std::getenv("BINADE_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}();
inline std::atomic<bool> reached[max_places];

// By system calls, so that a test that makes library calls fail does not count these.
inline void note(const char* line, int length) {
  const int error = errno;
  const char* file = std::getenv("BINADE_MUTANT_REACHED");
  if (file != nullptr) {
    const long out = ::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (out >= 0) {
      [[maybe_unused]] const long written = ::syscall(SYS_write, out, line, length);
      ::syscall(SYS_close, out);
    }
  }
  errno = error;
}

inline void record(int place) {
  // A plain read first: threads that all write to one place would wait for each other.
  if (reached[place].load(std::memory_order_relaxed)) return;
  if (reached[place].exchange(true, std::memory_order_relaxed)) return;
  const char* test =
      std::getenv("BINADE_MUTANT_TEST");  // of the parent in programs that a test starts
  char line[512];
  const int length =
      std::snprintf(line, sizeof line, "reached\t%s\t%d\n", test == nullptr ? "" : test, place);
  note(line, length);
}

}  // namespace mutants

// For the lists of tests/mutants: also in constant expressions, where it is false.
constexpr bool mutant_active(int number) {
  return !std::is_constant_evaluated() && number == mutants::active;
}

// For random faults. Not constexpr: a place that must be constant fails to compile, and another
// takes its turn.
inline bool fault(int place) {
  if (mutants::active == place) return true;
  if (mutants::active == mutants::recording) mutants::record(place);
  return false;
}

// In headers, where one that does not compile would have everything compiled again: false in
// constant expressions.
constexpr bool header_fault(int place) { return !std::is_constant_evaluated() && fault(place); }

// One of two arguments of one type.
template <typename T>
constexpr T& fault_pick(bool active, T& given, T& other) {
  return active ? other : given;
}
template <typename T>
constexpr const T& fault_pick(bool active, const T& given, const T& other) {
  return active ? other : given;
}

}  // namespace binade
#endif
