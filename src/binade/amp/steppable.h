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
  // The gradients a step uses, one for each parameter; undefined where there is none. Those of an
  // optimizer that owns parts of the parameters are shorter than these.
  virtual std::vector<Tensor> gradients() const {
    std::vector<Tensor> result;
    for (const Tensor& parameter : parameters()) result.push_back(parameter.grad());
    return result;
  }
  virtual void step(const StepControl& control) = 0;
};

}  // namespace binade::amp
