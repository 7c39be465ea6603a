#include "binade/ranks/step_clock.h"

namespace binade::ranks {

void StepClock::begin() {
  began_ = std::chrono::steady_clock::now();
  before_ = ranks_->traffic();
}

void StepClock::end() {
  const Traffic& now = ranks_->traffic();
  time_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  time_.waited += now.waited - before_.waited;
  time_.sent += static_cast<double>(now.bytes_sent - before_.bytes_sent);
}

void StepClock::capture(FunctionRef<void()> work) {
  const int64_t before = ranks_->traffic().bytes_sent;
  work();
  captured_ = static_cast<double>(ranks_->traffic().bytes_sent - before);
}

std::vector<RankTime> StepClock::gather() const {
  if (ranks_->size() == 1) return {};
  std::vector<RankTime> all(static_cast<size_t>(ranks_->size()));
  ranks_->all_gather("times", std::as_bytes(std::span(&time_, 1)),
                     std::as_writable_bytes(std::span(all)),
                     std::vector<int64_t>(all.size(), sizeof(RankTime)));
  return all;
}

}  // namespace binade::ranks
