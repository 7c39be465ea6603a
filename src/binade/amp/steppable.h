#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade::amp {

// What an update reads on the device, so that nothing waits for the host.
struct StepControl {
  Tensor gradient_factor;  // f32 [1]: multiplies every gradient; undefined: 1
  Tensor skip;             // f32 [1]: not 0 leaves everything as it is; undefined: never
};

// What a loss scaler needs of an optimizer.
class Steppable {
 public:
  virtual ~Steppable() = default;
  virtual std::vector<Tensor> parameters() const = 0;
  virtual void step(const StepControl& control) = 0;
};

}  // namespace binade::amp
