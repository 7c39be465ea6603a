#include "binade/train/run/skip_notes.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace binade::train {

std::string SkipNotes::add(const StepResult& result) {
  ++steps_;
  if (result.applied) return "";
  ++skipped_;
  const bool is_known =
      std::exchange(std::isfinite(result.loss) ? had_bad_gradient_ : had_bad_loss_, true);
  const std::string line = fmt::format("step {} skipped: {}", result.step, result.reason);
  const bool is_round = skipped_ == next_;
  if (is_round) next_ *= 10;
  if (!is_known) return line;
  if (is_round) return fmt::format("{}; {} steps of this run so far", line, skipped_);
  ++silent_;
  return "";
}

std::string SkipNotes::total() const {
  if (silent_ == 0) return "";
  return fmt::format("{} of {} steps were skipped", skipped_, steps_);
}

}  // namespace binade::train
