#pragma once

#include "binade/base/parallel.h"

namespace binade {

// Sets the number of threads for a scope.
class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(threads()) { set_threads(count); }
  ~ThreadCount() { set_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace binade
