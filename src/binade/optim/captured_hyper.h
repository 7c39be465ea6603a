#pragma once

#include <array>
#include <span>

#include "binade/backend/update.h"
#include "binade/optim/slot.h"

namespace binade::optim {

// Hyperparameters of a captured step (backend/graph.h), which its kernels read from device memory:
// one row of UpdateControl::hyper for each slot.
class CapturedHyper {
 public:
  bool is_capturing() const { return is_capturing_; }
  void begin(std::span<Slot* const> slots);
  void end() { is_capturing_ = false; }
  // The row of slot `index`, from the next upload() on.
  void set(size_t index, const std::array<double, 4>& values,
           const backend::RatesAfterSkips& after);
  void upload();

 private:
  bool is_capturing_ = false;
  Tensor device_, host_;  // f64 [slots, 8], once a step was captured
};

}  // namespace binade::optim
