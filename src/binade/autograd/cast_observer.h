#pragma once

#include "binade/base/restore.h"
#include "binade/tensor/tensor.h"

namespace binade::autograd {

// Called after a backward has converted a gradient to another type in a pass of its own. Matmuls
// and other kernels that write a wider gradient themselves make no such pass.
using CastObserver = void (*)(const Tensor& from, const Tensor& to);

// For its lifetime, `observer` (or none, if null) sees the casts of this thread's backwards.
class [[nodiscard]] CastObserverScope {
 public:
  explicit CastObserverScope(CastObserver observer);

 private:
  Restore<CastObserver> scope_;
};

// Tells this thread's observer, if there is one. Does nothing if the types are equal.
void observe_cast(const Tensor& from, const Tensor& to);

}  // namespace binade::autograd
