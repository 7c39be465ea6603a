#include "binade/train/watch/loss_course.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace binade::train {
namespace {

// At once: no batch costs three times guessing unless the weights have left. 2 nats more, since
// with a vocabulary of two or three tokens a batch of surprises may cost that.
constexpr double runaway_ratio = 3, runaway_margin = 2;
// Above guessing by a fifth and at least 1 nat, in the median of 9 steps: a learning rate that is
// somewhat high overshoots by less, or for fewer steps.
constexpr size_t short_window = 9;
constexpr double above_ratio = 0.2, above_margin = 1;
// Above its own lowest median of 20 steps by half and 0.5 nats: batches differ by some percent, and
// medians of so many by less; half a nat, since a text known by heart costs nearly nothing.
constexpr size_t long_window = 20;
constexpr double climb_ratio = 1.5, climb_margin = 0.5;
// Within 2% of guessing with a ten-thousandth of the largest gradient, 3 steps in a row: a model at
// the start of its training has the loss, but not such a gradient.
constexpr double collapse_distance = 0.02, collapse_gradient = 1e-4;
constexpr int64_t collapse_steps = 3;
// At guessing or above in each of 9 steps, whatever the gradient, after three in a row of which the
// median was a tenth below: a batch may be that hard, not so many.
constexpr double forgotten_ratio = 0.1;
constexpr size_t learned_window = 3;

std::string lower_lr(const RunFacts& run, double lr) {
  // Without a memory of squares, the smallest elements of the gradient make updates as large as the
  // largest do.
  if (run.beta2 && *run.beta2 < 0.5) return fmt::format("raise --beta2 (now {:.3g})", *run.beta2);
  return fmt::format("lower --lr (now {:.3g}) or lengthen --warmup", lr);
}

}  // namespace

double LossCourse::ignorance() const { return std::max(run_.guessing(), first_.value_or(0)); }

double LossCourse::recent(size_t count) const {
  std::vector<double> sorted(losses_.end() - static_cast<std::ptrdiff_t>(count), losses_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string LossCourse::climb(const StepFacts& step) const {
  const double limit = ignorance();
  const bool runs_away = step.loss > runaway_ratio * limit + runaway_margin;
  const bool is_above = losses_.size() >= short_window &&
                        recent(short_window) > limit + std::max(above_margin, above_ratio * limit);
  if (first_ && (runs_away || is_above))
    return fmt::format("the loss is {:.4g}{} after {:.4g} at the start, and guessing costs {:.3g}",
                       runs_away ? step.loss : recent(short_window),
                       runs_away ? "" : fmt::format(" (the median of {} steps)", short_window),
                       *first_, run_.guessing());
  if (lowest_step_ > 0 && losses_.size() == long_window &&
      recent(long_window) > climb_ratio * lowest_ + climb_margin)
    return fmt::format("the loss has climbed from {:.4g} at step {} to {:.4g}", lowest_,
                       lowest_step_, recent(long_window));
  return "";
}

bool LossCourse::has_collapsed(const StepFacts& step) const {
  const double guessing = run_.guessing();
  return step.gradient_norm > 0 && step.gradient_norm < collapse_gradient * largest_gradient_ &&
         std::abs(step.loss - guessing) < collapse_distance * guessing;
}

// Whether the model had learned something, and now knows nothing.
bool LossCourse::has_forgotten() const {
  const double guessing = run_.guessing();
  if (!has_learned_ || losses_.size() < short_window) return false;
  return std::all_of(losses_.end() - short_window, losses_.end(),
                     [&](double loss) { return loss > (1 - collapse_distance) * guessing; });
}

std::optional<Alarm> LossCourse::examine(const StepFacts& step) const {
  if (const std::string climbed = climb(step); !climbed.empty())
    return Alarm{Cause::divergence, step.step, climbed, lower_lr(run_, step.lr)};
  if (faint_steps_ < collapse_steps && has_forgotten())
    return Alarm{
        Cause::collapse, step.step,
        fmt::format("the loss is that of guessing, {:.4g}, in {} steps in a row after {:.4g} "
                    "before",
                    step.loss, short_window, lowest_of_few_),
        lower_lr(run_, step.lr)};
  if (faint_steps_ < collapse_steps) return {};
  return Alarm{Cause::collapse, step.step,
               fmt::format("the loss is that of guessing, {:.4g}, and the gradient's norm {:.2g} "
                           "after up to {:.2g}",
                           step.loss, step.gradient_norm, largest_gradient_),
               lower_lr(run_, step.lr)};
}

std::optional<Alarm> LossCourse::add(const StepFacts& step) {
  if (!std::isfinite(step.loss)) return {};  // the doctor's
  losses_.push_back(step.loss);
  if (losses_.size() > long_window) losses_.pop_front();
  faint_steps_ = has_collapsed(step) ? faint_steps_ + 1 : 0;
  if (std::isfinite(step.gradient_norm))
    largest_gradient_ = std::max(largest_gradient_, step.gradient_norm);
  if (losses_.size() >= learned_window) {
    const double now = recent(learned_window);
    if (now < (1 - forgotten_ratio) * run_.guessing()) {
      lowest_of_few_ = has_learned_ ? std::min(lowest_of_few_, now) : now;
      has_learned_ = true;
    }
  }
  std::optional<Alarm> alarm = examine(step);
  state_ = alarm ? alarm->finding : "";
  if (!first_) first_ = step.loss;
  if (losses_.size() == long_window) {
    const double now = recent(long_window);
    if (lowest_step_ == 0 || now < lowest_) {
      lowest_ = now;
      lowest_step_ = step.step;
    }
  }
  return alarm;
}

}  // namespace binade::train
