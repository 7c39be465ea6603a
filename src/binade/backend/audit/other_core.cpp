#include "binade/backend/audit/other_core.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <exception>
#include <utility>

#include "binade/base/parallel.h"

namespace binade::backend {
namespace {

#ifdef __linux__
std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  return cores;
}

int current_core() { return sched_getcpu(); }

// False if this thread may not run there.
bool move_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}
#else
std::vector<int> usable_cores() { return {}; }
int current_core() { return -1; }
bool move_to(int) { return false; }
#endif

}  // namespace

OtherCore::OtherCore() : cores_(usable_cores()), thread_([this] { serve(); }) {}

OtherCore::~OtherCore() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int OtherCore::run(size_t choice, const std::function<void()>& work) {
  int core = -1;
  if (!cores_.empty()) {
    core = cores_[choice % cores_.size()];
    if (core == current_core()) core = cores_[(choice + 1) % cores_.size()];
  }
  std::unique_lock lock(mutex_);
  work_ = &work;
  core_ = core;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr; });
  if (auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  return core_;
}

void OtherCore::serve() {
  const SerialScope serial;
  std::unique_lock lock(mutex_);
  for (int at = -1;;) {
    changed_.wait(lock, [this] { return ends_ || work_ != nullptr; });
    if (ends_) return;
    if (core_ != at && core_ >= 0) at = move_to(core_) ? core_ : -1;
    core_ = at;
    try {
      (*work_)();
    } catch (...) {
      failure_ = std::current_exception();
    }
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace binade::backend
