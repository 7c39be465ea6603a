#pragma once

#include "binade/base/restore.h"

namespace binade::backend {

// Whether kernels called by this thread must give the same bits every time. Otherwise a GPU may add
// in any order where that is faster: the backward of 16-bit attention, and convolutions. True
// unless a guard or the environment (BINADE_NONDETERMINISTIC=1) says otherwise.
bool deterministic();

// For its lifetime, kernels called by this thread may add in any order, if `allowed`. Guards nest;
// an inner one takes nothing back.
class [[nodiscard]] AnyOrder {
 public:
  explicit AnyOrder(bool allowed);

 private:
  Restore<bool> deterministic_;
};

}  // namespace binade::backend
