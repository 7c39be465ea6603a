#pragma once

#include "binade/base/restore.h"

// Scopes that switch the recording of backward passes on and off.
namespace binade::autograd {

// Whether ops on this thread record their backward.
bool grad_enabled();

// Switches recording on this thread from here on, until the innermost open scope ends.
void set_grad_enabled(bool enabled);

// For its lifetime, switches recording on this thread; see NoGrad and EnableGrad. Scopes nest.
class GradMode {
 protected:
  explicit GradMode(bool enabled);

 private:
  Restore<bool> scope_;
};

// For its lifetime, ops record their backward even inside a NoGrad.
class [[nodiscard]] EnableGrad : GradMode {
 public:
  EnableGrad() : GradMode(true) {}
};

}  // namespace binade::autograd

namespace binade {

// For its lifetime, ops on this thread record no backward.
class [[nodiscard]] NoGrad : autograd::GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace binade
