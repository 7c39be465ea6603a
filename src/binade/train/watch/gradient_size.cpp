#include "binade/train/watch/gradient_size.h"

#include <fmt/format.h>

#include <algorithm>

namespace binade::train {
namespace {

// One batch may have nothing to learn from, such as examples without answers; two in a row do not.
constexpr int64_t zero_limit = 2;
// As many steps as Adam's mean squares need to forget a batch at beta2 = 0.8.
constexpr int64_t small_limit = 5;
// A text that is known by heart: its gradients vanish as they should.
constexpr double learned = 0.01;

double clipped(const RunFacts& run, double norm) {
  return run.clip > 0 ? std::min(norm, run.clip) : norm;
}

}  // namespace

// What eps is compared with. The root of the mean square over all parameters is the norm divided by
// the root of their number.
double GradientSize::size_of(double norm) const {
  return run_.eps_is_of_norm ? norm : norm / std::sqrt(run_.elements);
}

// An update is m / (root of v + eps), so eps halves it where the root is as large, and makes it
// proportional to the gradient where the root is smaller.
bool GradientSize::is_ruled_by_eps(const StepFacts& step) const {
  return run_.eps > 0 && run_.elements > 0 && step.loss > learned * run_.guessing() &&
         size_of(clipped(run_, step.gradient_norm)) < run_.eps;
}

Alarm GradientSize::small_gradient(const StepFacts& step) const {
  const double after = clipped(run_, step.gradient_norm);
  const bool clips = after < step.gradient_norm;
  return {.cause = Cause::small_gradient,
          .step = step.step,
          .finding = fmt::format("gradients of {} {:.2g}{} are below {}, {:.2g}, "
                                 "which takes the updates away",
                                 run_.eps_is_of_norm ? "norm" : "RMS", size_of(after),
                                 clips ? fmt::format(", clipped from a norm of {:.3g} to {:.2g},",
                                                     step.gradient_norm, after)
                                       : "",
                                 run_.eps_name, run_.eps),
          .advice = clips ? "raise --clip" : "check that the loss reaches the weights"};
}

std::optional<Alarm> GradientSize::add(const StepFacts& step) {
  if (!step.is_finite() || !step.applied) return {};
  const bool is_zero =
      step.gradient_norm == 0 && (step.loss > learned * run_.guessing() || !had_loss_);
  had_loss_ |= step.loss != 0;
  zero_steps_ = is_zero ? zero_steps_ + 1 : 0;
  if (zero_steps_ >= zero_limit) {
    const bool no_labels = step.loss == 0;
    return Alarm{
        .cause = Cause::no_gradient,
        .step = step.step,
        .finding = fmt::format("all gradients are zero at a loss of {:.4g}", step.loss),
        .advice = no_labels
                      ? "no token counts: check the labels of the data"
                      : "no weight can change: look for weights that are zero, detached tensors, "
                        "or activations that are off"};
  }
  small_steps_ = !is_zero && is_ruled_by_eps(step) ? small_steps_ + 1 : 0;
  if (small_steps_ >= small_limit) return small_gradient(step);
  return {};
}

}  // namespace binade::train
