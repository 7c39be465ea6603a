#pragma once

#include "binade/base/restore.h"

namespace binade::autograd {

// Whether this thread repeats a forward to recompute activations for a backward. State that a
// forward updates (histories of scales, running statistics) must not be updated a second time.
bool recomputing();

// For its lifetime, recomputing() is true on this thread.
class [[nodiscard]] RecomputeScope {
 public:
  RecomputeScope();

 private:
  Restore<bool> scope_;
};

}  // namespace binade::autograd
