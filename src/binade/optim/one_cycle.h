#pragma once

#include <cstdint>

namespace binade::optim {

enum class Annealing : uint8_t { cosine, linear };

// The 1cycle policy (Smith and Topin, 2018) as PyTorch's OneCycleLR: the learning rate rises from
// max_lr / initial_divisor to max_lr and falls to the initial rate / final_divisor, while the
// momentum does the opposite between its two bounds.
struct OneCycle {
  double max_lr = 1e-3;
  int64_t total = 0;    // all steps
  double rising = 0.3;  // fraction of the steps in which the rate rises
  Annealing annealing = Annealing::cosine;
  double initial_divisor = 25;
  double final_divisor = 1e4;
  bool three_phases =
      false;  // falls to the initial rate as it rose, and only then to the final one
  double base_momentum = 0.85, max_momentum = 0.95;

  // The rate and the momentum of step `step`, counted from 0. After `total` they stay.
  double at(int64_t step) const;
  double momentum_at(int64_t step) const;
  // Fails on invalid values.
  void check() const;
};

}  // namespace binade::optim
