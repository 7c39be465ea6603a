#pragma once

#include <memory>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A number on its way from a device to the host. Making one never waits; get() waits until the
// number is there, which it usually is when asked a step later. One made while a graph is captured
// (backend/graph.h) has no number, but replayed() makes one that has after each launch; it keeps
// the tensor, whose value must stay until the launch ends.
class AsyncScalar {
 public:
  AsyncScalar() = default;
  // Of a tensor with one element, as it is at this point of the device's work.
  explicit AsyncScalar(const Tensor& scalar);

  bool defined() const { return state_ != nullptr; }
  bool recorded() const;
  // The number as the device's work leaves it now; itself where it was not recorded.
  AsyncScalar replayed() const;
  double get() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
