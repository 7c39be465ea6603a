#pragma once

#include <optional>

#include "binade/train/watch/alarm.h"
#include "binade/train/watch/facts.h"

namespace binade::train {

// Compares the first loss of a run with that of guessing.
std::optional<Alarm> check_first_loss(const RunFacts& run, const StepFacts& step);

}  // namespace binade::train
