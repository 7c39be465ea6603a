#pragma once

#include <optional>

#include "binade/train/watch/alarm.h"
#include "binade/train/watch/facts.h"

namespace binade::train {

// Recognizes gradients that are zero, or too small for the optimizer.
class GradientSize {
 public:
  explicit GradientSize(const RunFacts& run) : run_(run) {}

  std::optional<Alarm> add(const StepFacts& step);

 private:
  double size_of(double norm) const;
  bool is_ruled_by_eps(const StepFacts& step) const;
  Alarm small_gradient(const StepFacts& step) const;

  RunFacts run_;
  int64_t zero_steps_ = 0, small_steps_ = 0;  // in a row
  bool had_loss_ = false;
};

}  // namespace binade::train
