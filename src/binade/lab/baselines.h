#pragma once

#include <functional>
#include <optional>

#include "binade/train/run/loop.h"

namespace binade::lab {

// Trains the model of a run with auto_precision again in bf16 and in plain FP8, with its seed, data
// and steps, in baselines/bf16 and baselines/fp8 of its folder. Then writes the run's report again,
// which compares them. Complete baselines stay as they are, others are resumed; one that diverges
// is compared up to there. `log` receives a line before each. Returns the baseline that was
// interrupted, if one was.
std::optional<train::RunResult> train_baselines(
    const train::Config& config, const train::RunResult& run, train::Progress::Mode mode,
    const std::function<void(const std::string&)>& log = {});

}  // namespace binade::lab
