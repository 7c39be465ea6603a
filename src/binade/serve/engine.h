#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "binade/base/execution.h"
#include "binade/serve/answer.h"
#include "binade/train/model_precision.h"
#include "binade/train/streams.h"

namespace binade::serve {

// A text to generate, of an answer.
struct TextJob {
  train::StreamRequest request;
  std::shared_ptr<Answer> answer;
};

// A thread that runs the model for all clients: the texts of all answers grow together, and those
// that wait are begun in the order of their requests.
class Engine {
 public:
  struct Options {
    int64_t streams = 16;  // texts that grow together
    int64_t queue = 256;   // texts that may wait
    train::InferencePrecision precision = {};
  };

  // The model must outlive it, and no other thread may use it meanwhile.
  Engine(nn::LanguageModel& model, const Options& options);
  // Ends the texts that are being generated.
  ~Engine();

  // Takes all of the jobs, or none of them if the queue has no room.
  bool submit(std::vector<TextJob> jobs);
  // From now on takes no jobs; the answers that were not begun fail.
  void drain();
  bool is_draining() const;

 private:
  void run();
  // The jobs to begin next. Waits for some if the model has nothing to do; false: it shall end.
  bool next_jobs(const train::StreamBatch& batch, std::vector<TextJob>& jobs);
  void begin(train::StreamBatch& batch, TextJob job);

  nn::LanguageModel& model_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TextJob> queue_;
  bool is_draining_ = false, is_stopping_ = false;
  std::vector<std::weak_ptr<Answer>> begun_;  // of the model's thread
  execution::Thread thread_;
};

}  // namespace binade::serve
