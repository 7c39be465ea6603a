#pragma once

#include <span>
#include <vector>

#include "binade/backend/update.h"
#include "binade/optim/slot.h"

namespace binade::optim {

// The steps of an optimizer: the host counts those it starts; a GPU counts those it skips, which
// the host learns about later.
class StepCounts {
 public:
  // Calls of step() that the host did not know to be skipped.
  int64_t started() const { return started_; }
  void set_started(int64_t steps) { started_ = steps; }
  // Updates applied so far. Waits for a GPU if steps may have been skipped there.
  int64_t applied() const;
  // Counts a step for the slots with a gradient and marks their data as changed.
  void count_step(std::span<Slot* const> slots);
  // Counts, on the device, the steps that the flag skips: of each slot with a gradient, and in all.
  void count_skipped(const Tensor& skip, std::span<Slot* const> slots);
  void make_skipped(Device device, std::span<Slot* const> slots);
  bool are_skips_counted() const { return skipped_.defined(); }
  // f32 [1]: all skipped steps; undefined if they are not counted.
  Tensor skipped_steps() const;
  // Waits for these counts and subtracts them from the host's, so that a run continues exactly as
  // one resumed from its state.
  void forget_skipped(std::span<Slot* const> slots);

  // The first group's learning rates after 1, 2, ... skips that the host does not know of, when it
  // knew of `updates` applied ones; none: they are as the host's.
  void set_rates_after_skips(int64_t updates, std::span<const double> rates);
  void clear_rates() { rates_.clear(); }
  // Those of a group with learning rate `lr`, `ratio` times the first group's.
  backend::RatesAfterSkips rates_after_skips(double lr, double ratio) const;

 private:
  int64_t started_ = 0;
  Tensor skipped_;  // in all and of each slot: f32 [1 + slots] on the device
  std::vector<double> rates_;
  int64_t known_skipped_ = 0;  // skips that the host knew of when it set these rates
};

}  // namespace binade::optim
