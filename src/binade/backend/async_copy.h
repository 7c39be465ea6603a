#pragma once

#include <memory>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A dense tensor being copied to the host asynchronously. Construction never waits, and the
// tensor's memory may be reused by later work on its device; get() waits for the data. Both may run
// on different threads. Not for work that is being captured.
class AsyncCopy {
 public:
  AsyncCopy() = default;
  explicit AsyncCopy(const Tensor& x);

  bool defined() const { return state_ != nullptr; }
  // The values on the CPU. A tensor that was there already is returned itself.
  Tensor get() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
