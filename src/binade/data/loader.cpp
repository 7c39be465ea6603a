#include "binade/data/loader.h"

#include <utility>

#include "binade/base/division.h"

namespace binade::data {

Loader::Loader(Tokens tokens, const Options& options)
    : tokens_(std::move(tokens)), options_(options) {
  if (options_.ahead > 0) thread_ = execution::Thread([this] { prepare(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Batch Loader::batch_at(int64_t index) const {
  BatchShape shape = options_.shape;
  shape.accumulate = options_.accumulate;
  const int64_t count = divide_up(options_.accumulate - options_.first, options_.stride);
  return training_batch(tokens_, shape, options_.seed, options_.step + index / count,
                        options_.first + index % count * options_.stride);
}

Batch Loader::next() {
  if (options_.ahead == 0) return batch_at(taken_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::prepare() {
  std::unique_lock lock(mutex_);
  for (int64_t index = 0;; ++index) {
    changed_.wait(lock, [this] { return stop_ || std::cmp_less(ready_.size(), options_.ahead); });
    if (stop_) return;
    lock.unlock();
    try {
      Batch batch = batch_at(index);
      lock.lock();
      ready_.push_back(std::move(batch));
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
      changed_.notify_all();
      return;
    }
    changed_.notify_all();
  }
}

}  // namespace binade::data
