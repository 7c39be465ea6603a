#include "binade/serve/engine.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace binade::serve {

Engine::Engine(nn::LanguageModel& model, const Options& options)
    : model_(model), options_(options), thread_([this] { run(); }) {}

Engine::~Engine() {
  drain();
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool Engine::submit(std::vector<TextJob> jobs) {
  const std::lock_guard lock(mutex_);
  if (is_draining_ || std::cmp_greater(queue_.size() + jobs.size(), options_.queue)) return false;
  for (TextJob& job : jobs) queue_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void Engine::drain() {
  std::deque<TextJob> dropped;
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
  std::deque<TextJob> kept;
  for (TextJob& job : queue_) {
    // Of an answer that was begun, all texts are generated.
    (job.answer->is_started() ? kept : dropped).push_back(std::move(job));
  }
  queue_ = std::move(kept);
  for (const TextJob& job : dropped) job.answer->fail("the server is shutting down");
}

bool Engine::is_draining() const {
  const std::lock_guard lock(mutex_);
  return is_draining_;
}

bool Engine::next_jobs(const train::StreamBatch& batch, std::vector<TextJob>& jobs) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_stopping_ || !queue_.empty() || !batch.empty(); });
  if (is_stopping_) return false;
  auto room = options_.streams - batch.size();
  for (; room > 0 && !queue_.empty(); --room) {
    jobs.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return true;
}

void Engine::begin(train::StreamBatch& batch, TextJob job) {
  job.answer->start();
  begun_.push_back(job.answer);
  try {
    batch.add(std::move(job.request));
  } catch (const std::exception& error) {
    job.answer->fail(error.what());
  }
}

void Engine::run() {
  const train::InferenceScope scope(options_.precision, model_.head_weight().device());
  train::StreamBatch batch(model_, options_.streams);
  for (std::vector<TextJob> jobs; next_jobs(batch, jobs); jobs.clear()) {
    for (TextJob& job : jobs) begin(batch, std::move(job));
    std::erase_if(begun_, [](const auto& answer) { return answer.expired(); });
    try {
      batch.step();
    } catch (const std::exception& error) {  // such as no memory: whose text it was is not known
      for (const auto& begun : begun_) {
        if (const auto answer = begun.lock()) answer->fail(error.what());
      }
      batch.clear();
    }
  }
  batch.clear();
}

}  // namespace binade::serve
