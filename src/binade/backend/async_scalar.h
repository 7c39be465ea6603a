#pragma once

#include <memory>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A scalar being copied to the host asynchronously. Construction never waits; get() waits until the
// value has arrived, which by the next step it usually has. A scalar created during a graph capture
// (backend/graph.h) has no value of its own: after each replay, replayed() gives a scalar that has
// one. It keeps the tensor, whose value must stay until the replay ends.
class AsyncScalar {
 public:
  AsyncScalar() = default;
  // Copies a one-element tensor as it is at this point of the device's work.
  explicit AsyncScalar(const Tensor& scalar);

  bool defined() const { return state_ != nullptr; }
  // Whether it was created during a graph capture.
  bool captured() const;
  // The value after the latest replay, or this scalar itself if it was not captured.
  AsyncScalar replayed() const;
  double get() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
