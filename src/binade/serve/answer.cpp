#include "binade/serve/answer.h"

#include <utility>

namespace binade::serve {

void Answer::start() {
  const std::lock_guard lock(mutex_);
  is_started_ = true;
  changed_.notify_all();
}

void Answer::post(TextPart part) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;  // what ends then is not complete
  parts_.push_back(std::move(part));
  changed_.notify_all();
}

void Answer::fail(std::string reason) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(reason);
  changed_.notify_all();
}

bool Answer::is_wanted() const {
  const std::lock_guard lock(mutex_);
  return !is_cancelled_ && failure_.empty() && Clock::now() < deadline_;
}

bool Answer::is_started() const {
  const std::lock_guard lock(mutex_);
  return is_started_;
}

bool Answer::wait_for_start() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_, [&] { return is_started_ || !failure_.empty(); });
  return is_started_;
}

std::optional<TextPart> Answer::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !parts_.empty() || !failure_.empty(); });
  if (parts_.empty()) return {};
  TextPart part = std::move(parts_.front());
  parts_.pop_front();
  return part;
}

std::string Answer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Answer::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
}

}  // namespace binade::serve
