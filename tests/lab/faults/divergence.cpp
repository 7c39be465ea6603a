#include "lab/faults/table.h"

#include <cmath>

// Runs that diverge, which look like faults of precision in the step that fails; and runs that do
// not.
namespace binade::lab::faults {
namespace {

// `steps` records whose losses, gradient norms and weight norms go from `first` to `last`
// geometrically.
std::vector<StepRecord> run_from(StepRecord first, StepRecord last, int steps = 20) {
  const auto between = [&](double StepRecord::*member, int i) {
    return first.*member * std::pow(last.*member / first.*member, i / (steps - 1.0));
  };
  std::vector<StepRecord> history;
  for (int i = 0; i < steps; ++i) {
    history.push_back({.loss = between(&StepRecord::loss, i),
                       .gradient_norm = between(&StepRecord::gradient_norm, i),
                       .weight_norm = between(&StepRecord::weight_norm, i),
                       .lr = 1e-3});
  }
  return history;
}

std::vector<StepRecord> healthy() { return run_from({5.5, 1, 10, 1e-3}, {3, 0.5, 12, 1e-3}); }
std::vector<StepRecord> rising() { return run_from({5.5, 1, 10, 3}, {496, 50, 90, 3}); }

// A loss that spikes once in a while and recovers is no divergence.
std::vector<StepRecord> spiky() {
  std::vector<StepRecord> history = healthy();
  history[8].loss = 9;
  return history;
}

}  // namespace

std::vector<Fault> divergence_faults() {
  using enum Direction;
  const auto overflow = [](const Tensor& w) { return sum(linear(constant(300), w)); };
  const auto too_scaled = [](const Tensor& w) { return mean(cast(f16_of(w), DType::f32)) * 100; };
  std::vector<Fault> faults = {
      {"overflow_of_a_rising_loss", 300, overflow, "linear", forward, Origin::op,
       Verdict::divergence, 1, true},
      {"nan_weights_after_a_rising_loss", nan, overflow, "linear", optimizer, Origin::parameter,
       Verdict::divergence},
      {"scale_of_a_rising_loss", 1, too_scaled, "cast", backward, Origin::op, Verdict::divergence,
       65536, true},
      {"exponential_of_growing_weights", 100, [](const Tensor& w) { return sum(exp(w)); }, "exp",
       forward, Origin::op, Verdict::divergence},
      {"gradients_that_fit_only_below_scale_one", 1,
       [](const Tensor& w) { return sum(cast(f16_of(w), DType::f32)) * 1e5; }, "cast", backward,
       Origin::op, Verdict::divergence, 65536, true},
      {"overflow_of_a_falling_loss", 300, overflow, "linear", forward, Origin::op, Verdict::range,
       1, true},
      {"scale_of_a_falling_loss", 1, too_scaled, "cast", backward, Origin::op, Verdict::loss_scale,
       65536, true},
      {"logarithm_after_a_spike", 0, [](const Tensor& w) { return sum(log(w)); }, "log", forward,
       Origin::op, Verdict::op},
  };
  faults[0].history = faults[1].history = faults[2].history = rising();
  faults[3].history = run_from({5.5, 1, 10, 1e-3}, {5.4, 1, 400, 1e-3});
  faults[5].history = faults[6].history = healthy();
  faults[7].history = spiky();
  return faults;
}

}  // namespace binade::lab::faults
