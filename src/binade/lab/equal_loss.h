#pragma once

#include <optional>
#include <span>
#include <vector>

#include "binade/train/run/metrics.h"

// Speed at equal loss: a run with faster steps may need more of them.
namespace binade::lab {

// The training loss of each step, as the mean over neighboring steps.
std::vector<double> smoothed_losses(std::span<const train::Record> records);

// How many steps `run` needs for one of `base` to reach the same loss: the factor by which base's
// curve must be stretched to lie on run's from a quarter of the steps on. Nothing for curves that
// are too short, not finite, or more than a factor of 4 apart.
std::optional<double> step_ratio(std::span<const train::Record> base,
                                 std::span<const train::Record> run);

// Speed relative to another run, to the same loss.
struct EqualLossSpeed {
  double ratio = 1, low = 1, high = 1;
};

// `raw`: tokens per second of `run` relative to `base`. The range is that of the factors between
// runs of `base` that differ by their seed only; none of these: no range.
std::optional<EqualLossSpeed> speed_at_equal_loss(
    double raw, std::span<const train::Record> base, std::span<const train::Record> run,
    std::span<const std::vector<train::Record>> seeds);

}  // namespace binade::lab
