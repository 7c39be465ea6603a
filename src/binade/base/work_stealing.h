#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "binade/base/parallel.h"

namespace binade {

// Items 0 to n - 1, each of which one of several workers takes. They are cut into as many ranges as
// there are workers; each takes its own one by one and then what others have left: a slow
// neighbour, or a small item, costs no waiting, and the rows a core wrote last are mostly the rows
// it reads next. Who computes an item must not show in its result.
class SharedItems {
 public:
  SharedItems(int64_t workers, int64_t items)
      : ranges_(std::min(workers, items)),
        items_(items),
        next_(std::make_unique<Next[]>(static_cast<size_t>(ranges_))) {
    for (int64_t i = 0; i < ranges_; ++i) next_[i].item.store(begin(i), std::memory_order_relaxed);
  }

  // Calls body(item) for every item that no one has taken yet, this worker's own first.
  template <class Body>
  void take(int64_t worker, const Body& body) {
    for (int64_t i = 0; i < ranges_; ++i) {
      const int64_t range = (worker + i) % ranges_;
      for (int64_t item;
           (item = next_[range].item.fetch_add(1, std::memory_order_relaxed)) < begin(range + 1);) {
        const Done done{done_};
        body(item);
      }
    }
  }

  // Waits until all items are done. Only for workers that have returned from take().
  void wait() const {
    for (int turns = 0; done_.load(std::memory_order_acquire) < items_; ++turns) {
      // The others are about to finish, unless the system has taken their core away.
      turns < 10000 ? pause() : std::this_thread::yield();
    }
  }

 private:
  struct alignas(64) Next {
    std::atomic<int64_t> item;
  };
  // Counts an item whose body throws, too: no one is to wait for it.
  struct Done {
    std::atomic<int64_t>& count;
    ~Done() { count.fetch_add(1, std::memory_order_release); }
  };

  // Leaves the core to the other thread that may run on it.
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

// Calls first(item) for all items of the first kind and then, when all of them are done,
// second(item) for those of the second kind, on as many threads as there are workers. One parallel
// region for both: the threads are woken once.
template <class First, class Second>
void share_in_turn(int64_t workers, int64_t first_items, const First& first, int64_t second_items,
                   const Second& second) {
  SharedItems early(workers, first_items), late(workers, second_items);
  on_each_thread(workers, [&](int64_t worker) {
    early.take(worker, first);
    early.wait();
    late.take(worker, second);
  });
}

}  // namespace binade
