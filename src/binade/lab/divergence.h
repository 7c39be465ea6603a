#pragma once

#include <span>
#include <string>

namespace binade::lab {

// One step of a run's history. Numbers that were not measured are 0.
struct StepRecord {
  double loss = 0;
  double gradient_norm = 0;
  double weight_norm = 0;  // of all parameters
  double lr = 0;
};

// The signs of divergence in a run's history, oldest step first: "the loss rose from 5.2 to 496 in
// 20 steps". Empty if there are none. Single spikes do not count.
std::string signs_of_divergence(std::span<const StepRecord> history);

}  // namespace binade::lab
