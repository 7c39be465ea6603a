#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "binade/base/parallel.h"

namespace binade {

// Items 0 to n - 1, divided into one contiguous range per worker. A worker takes the items of its
// own range and then steals from the others, so slow cores and uneven items cost little waiting,
// and a core mostly reads the rows it wrote last. Results must not depend on the worker.
class WorkQueues {
 public:
  WorkQueues(int64_t workers, int64_t items)
      : ranges_(std::min(workers, items)),
        items_(items),
        next_(std::make_unique<Next[]>(static_cast<size_t>(ranges_))) {
    for (int64_t i = 0; i < ranges_; ++i) next_[i].item.store(begin(i), std::memory_order_relaxed);
  }

  // Calls body(item) for every item not yet taken, starting with the worker's own range.
  template <class Body>
  void run(int64_t worker, const Body& body) {
    for (int64_t i = 0; i < ranges_; ++i) {
      const int64_t range = (worker + i) % ranges_;
      for (int64_t item;
           (item = next_[range].item.fetch_add(1, std::memory_order_relaxed)) < begin(range + 1);) {
        const CountDone done{done_};
        body(item);
      }
    }
  }

  // Waits until all items are done. Call it only after run() has returned.
  void wait() const {
    for (int spins = 0; done_.load(std::memory_order_acquire) < items_; ++spins) {
      // The other workers are about to finish unless the system has preempted them.
      spins < 10000 ? pause() : std::this_thread::yield();
    }
  }

 private:
  struct alignas(64) Next {
    std::atomic<int64_t> item;
  };
  // Counts an item even if its body throws, so that wait() returns.
  struct CountDone {
    std::atomic<int64_t>& count;
    ~CountDone() { count.fetch_add(1, std::memory_order_release); }
  };

  // Yields execution resources to the core's other hardware thread.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  int64_t begin(int64_t range) const { return items_ * range / ranges_; }

  int64_t ranges_, items_;
  std::unique_ptr<Next[]> next_;
  alignas(64) std::atomic<int64_t> done_ = 0;
};

// Calls first(item) for all first_items and, when all of them are done, second(item) for all
// second_items, on up to `workers` threads. One parallel region wakes the threads only once.
template <class First, class Second>
void run_two_phases(int64_t workers, int64_t first_items, const First& first, int64_t second_items,
                    const Second& second) {
  WorkQueues first_phase(workers, first_items), second_phase(workers, second_items);
  on_each_thread(workers, [&](int64_t worker) {
    first_phase.run(worker, first);
    first_phase.wait();
    second_phase.run(worker, second);
  });
}

}  // namespace binade
