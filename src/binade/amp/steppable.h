#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::amp {

// Inputs of an update that stay on the device, so that it does not wait for the host.
struct StepControl {
  Tensor gradient_factor;  // f32 [1]: multiplies every gradient; undefined: 1
  Tensor skip;             // f32 [1]: skips the update if not 0; undefined: never skips
};

// The interface of an optimizer that a loss scaler uses.
class Steppable {
 public:
  virtual ~Steppable() = default;
  virtual std::vector<Tensor> parameters() const = 0;
  virtual void step(const StepControl& control) = 0;
};

}  // namespace binade::amp
