#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "binade/base/execution.h"

namespace binade::backend {

// A thread that works for others on a core of their choice.
class OtherCore {
 public:
  OtherCore();
  ~OtherCore();
  OtherCore(const OtherCore&) = delete;
  OtherCore& operator=(const OtherCore&) = delete;

  // Runs `work` on core `choice` modulo their number, or on the next if the caller is on that one,
  // and waits. Returns the core; -1 if the system does not say. Rethrows what the work throws.
  int run(size_t choice, const std::function<void()>& work);

 private:
  void serve();

  std::vector<int> cores_;  // that this process may use
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  int core_ = -1;
  bool ends_ = false;
  std::exception_ptr failure_;
  execution::Thread thread_;
};

}  // namespace binade::backend
