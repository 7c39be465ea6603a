#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "binade/train/log_probs.h"
#include "binade/train/run/continuation.h"

namespace binade::serve {

// News of one of the texts of an answer.
struct TextPart {
  size_t choice = 0;
  std::string text = {};                        // bytes that were added
  std::vector<train::ScoredToken> prompt = {};  // scored tokens of the prompt
  std::vector<train::ScoredToken> tokens = {};  // generated tokens
  std::optional<train::Finish> finish = {};     // the last part has it
};

// What the model's thread and the client's thread know of an answer that is being generated. The
// model never waits for a client.
class Answer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Answer(Clock::time_point deadline) : deadline_(deadline) {}

  // ---- the model's thread ----
  void start();
  // After fail() nothing is taken.
  void post(TextPart part);
  void fail(std::string reason);
  // Whether the client still wants it and its time is not over.
  bool is_wanted() const;
  bool is_started() const;

  // ---- the client's thread ----
  // Waits until the first text is begun. Returns false if that does not happen before the deadline.
  bool wait_for_start();
  // The next part, or none if there is none for this long or the answer failed.
  std::optional<TextPart> take(std::chrono::milliseconds patience);
  // The reason why the answer failed; empty if it did not.
  std::string failure() const;
  void cancel();

 private:
  const Clock::time_point deadline_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TextPart> parts_;
  std::string failure_;
  bool is_started_ = false, is_cancelled_ = false;
};

}  // namespace binade::serve
