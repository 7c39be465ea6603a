#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "binade/base/execution.h"
#include "binade/data/batches.h"

namespace binade::data {

// Training batches in order, prepared ahead by a thread. Their content is data::training_batch,
// whatever the timing.
class Loader {
 public:
  struct Options {
    BatchShape shape = {};
    int64_t accumulate = 1;  // micro-batches per step
    int64_t first = 0;       // micro-batch of a step to load
    int64_t stride = 1;      // then every stride-th
    uint64_t seed = 0;
    int64_t step = 0;   // the first one
    int64_t ahead = 2;  // batches to prepare; 0: none, and no thread
  };
  Loader(Tokens tokens, const Options& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch: micro-batch 0, 1, ... of the first step, then of the one after it.
  Batch next();

 private:
  Batch batch_at(int64_t index) const;
  void prepare();

  const Tokens tokens_;
  const Options options_;
  int64_t taken_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  execution::Thread thread_;
};

}  // namespace binade::data
