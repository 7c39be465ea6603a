#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/lab/diagnosis.h"

namespace binade::data {
class Tokens;
}
namespace binade::train {
class Trainer;
}

// Repeats a step of a training run to find out what went wrong in it.
namespace binade::lab {

// A step to replay: counted from 0, at the loss scale it ran at.
struct ReplayedStep {
  int64_t step = 0;
  double scale = 1;
  std::vector<StepRecord> history = {};  // of the steps before it
};

// Replays the micro-batches of a step until one produces a non-finite value or loses its gradients,
// and diagnoses it. Weights, scales and histories stay unchanged; gradients are cleared.
std::optional<Diagnosis> examine_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      const ReplayedStep& step);

// Explains a finite loss that is far above those before it: replays the step in f32, and the step
// before it with the weights of now.
std::string explain_spike(train::Trainer& trainer, const data::Tokens& tokens,
                          const ReplayedStep& step);

}  // namespace binade::lab
