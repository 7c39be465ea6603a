#include "binade/train/watch/run_watch.h"

#include <fmt/format.h>

#include "binade/train/watch/first_loss.h"

namespace binade::train {

std::vector<Alarm> RunWatch::add(const StepFacts& step) {
  ++steps_;
  applied_ += step.applied ? 1 : 0;
  loss_is_finite_ = std::isfinite(step.loss);
  const std::optional<Alarm> first = check_first_loss(run_, step), course = losses_.add(step),
                             gradient = gradients_.add(step);
  stuck_ = gradient && gradient->cause == Cause::no_gradient ? gradient->finding : "";
  std::vector<Alarm> alarms;
  for (const std::optional<Alarm>& one : {first, course, gradient}) {
    if (one && !is_consequence(one->cause) && is_new(*one)) alarms.push_back(*one);
  }
  return alarms;
}

bool RunWatch::is_consequence(Cause cause) const {
  return cause == Cause::small_gradient &&
         (has_raised(Cause::divergence) || has_raised(Cause::collapse));
}

std::string RunWatch::failure() const {
  if (steps_ > 0 && applied_ == 0)
    return fmt::format("all {} steps were skipped, so nothing was learned", steps_);
  if (!loss_is_finite_) return "the loss is not finite";
  return losses_.state().empty() ? stuck_ : losses_.state();
}

}  // namespace binade::train
