#pragma once

#include <optional>

#include "binade/train/watch/alarm.h"
#include "binade/train/watch/facts.h"

namespace binade::train {

// Compares the first loss of a run with that of guessing.
std::optional<Alarm> check_first_loss(const RunFacts& run, const StepFacts& step);

// Names the parameter that stands out, and gives the advice that fits it.
void name_parameter(Alarm& alarm, const std::string& name);

}  // namespace binade::train
