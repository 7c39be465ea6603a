#pragma once

#include <memory>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A number on its way from a device to the host. Making one never waits; get() waits until the
// number is there, which it usually is when asked a step later.
class Late {
 public:
  Late() = default;
  // Of a tensor with one element, as it is at this point of the device's work.
  explicit Late(const Tensor& scalar);

  bool defined() const { return state_ != nullptr; }
  double get() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace binade::backend
