#pragma once

namespace binade::autograd {

// True while a forward runs for the second time to give a backward what it did not keep. State that
// a forward updates (FP8 amax histories, running statistics) must not be updated again.
bool recomputing();

class RecomputeScope {
 public:
  RecomputeScope();
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  bool previous_;
};

}  // namespace binade::autograd
