#pragma once

#include <deque>
#include <optional>

#include "binade/train/watch/alarm.h"
#include "binade/train/watch/facts.h"

namespace binade::train {

// Compares the loss with its own past and with guessing. Memory does not grow with the steps.
class LossCourse {
 public:
  explicit LossCourse(const RunFacts& run) : run_(run) {}

  // An alarm for each step in which the loss is too high, or the model has collapsed.
  std::optional<Alarm> add(const StepFacts& step);
  // Why the loss of the last step is not that of a model that learns; empty if it is.
  const std::string& state() const { return state_; }

 private:
  std::optional<Alarm> examine(const StepFacts& step) const;
  // The largest loss that a model which knows nothing may have.
  double ignorance() const;
  // The median of the last `count` losses.
  double recent(size_t count) const;
  std::string climb(const StepFacts& step) const;
  bool has_collapsed(const StepFacts& step) const;
  bool has_forgotten() const;

  RunFacts run_;
  std::optional<double> first_;
  std::deque<double> losses_;    // the last ones
  double lowest_ = 0;            // median of a window so far
  int64_t lowest_step_ = 0;      // the last step of that window; 0: none yet
  double largest_gradient_ = 0;  // norm so far
  bool has_learned_ = false;     // was clearly below guessing
  double lowest_of_few_ = 0;     // median of three steps so far, if so
  int64_t faint_steps_ = 0;      // in a row that look like a collapse
  std::string state_;
};

}  // namespace binade::train
