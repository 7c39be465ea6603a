#pragma once

#include <cstdint>

namespace binade::amp {

// Counts the steps skipped since the last applied one.
class SkipStreak {
 public:
  explicit SkipStreak(int64_t length = 0) : length_(length) {}

  void note(bool applied) { length_ = applied ? 0 : length_ + 1; }
  int64_t length() const { return length_; }

 private:
  int64_t length_;
};

}  // namespace binade::amp
