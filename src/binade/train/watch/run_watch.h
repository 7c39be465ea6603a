#pragma once

#include <set>
#include <vector>

#include "binade/train/watch/gradient_size.h"
#include "binade/train/watch/loss_course.h"

namespace binade::train {

// Observes the steps of a run. A function of facts that the host has anyway: it costs nothing on a
// device, changes nothing, and says the same on any number of ranks. A resumed run gives it the
// steps before again.
class RunWatch {
 public:
  explicit RunWatch(const RunFacts& run) : run_(run), losses_(run), gradients_(run) {}

  // The alarms of the step, each cause once per run.
  std::vector<Alarm> add(const StepFacts& step);
  // Whether this is the first alarm of its cause.
  bool is_new(const Alarm& alarm) { return raised_.insert(alarm.cause).second; }
  bool has_raised(Cause cause) const { return raised_.contains(cause); }

  // Why the run as it is now has failed, as a sentence: the loss is not finite or has diverged, or
  // no step was applied. Empty if it has not, or has recovered.
  std::string failure() const;

 private:
  // Whether an earlier alarm explains one of this cause.
  bool is_consequence(Cause cause) const;

  RunFacts run_;
  LossCourse losses_;
  GradientSize gradients_;
  std::set<Cause> raised_;
  int64_t steps_ = 0, applied_ = 0;
  bool loss_is_finite_ = true;
  std::string stuck_;  // a fault of gradients in the last step
};

}  // namespace binade::train
