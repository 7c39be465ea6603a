#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "binade/amp/steppable.h"
#include "binade/backend/async_scalar.h"
#include "binade/backend/loss_scaler.h"

namespace binade::amp {

struct GradScalerOptions {
  bool enabled = true;
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  // Beyond PyTorch; the defaults behave as PyTorch does.
  int64_t hysteresis =
      1;  // overflows tolerated before the scale shrinks (DeepSpeed and Megatron: 2)
  double minimum_scale = 0;  // where not 0: the scale stops here, and an overflow at it is an error
  int64_t skip_budget = 0;   // where not 0: this many skipped steps in a row are an error
  int64_t retest_after =
      0;  // where not 0: after so many overflows in a row one step runs at scale 1
  Device device = Device::cpu();
};

// What became of one step. On a GPU the answers are on their way when the step is started; asking
// for one waits for it, and costs nothing a step or two later.
class StepReport {
 public:
  bool applied() const;
  // Why it was not; empty where it was.
  std::string reason() const;
  // The first parameter with a gradient that is not finite; undefined where there is none.
  Tensor bad_parameter() const;
  // The scale its gradients were made with.
  double scale() const;
  // Of a recorded step (backend/graph.h): what became of its latest run.
  StepReport replayed() const;

 private:
  friend class GradScaler;
  backend::AsyncScalar found_inf_, first_bad_, scale_;  // undefined without a scaler
  std::vector<Tensor> checked_;                         // in the order of first_bad_
  bool at_scale_one_ = false;                           // a retest
};

// A scaler's state as it is saved. Empty where the scaler is disabled.
using ScalerState = std::map<std::string, double>;

// Dynamic loss scaling with PyTorch's semantics: scale the loss, unscale the gradients of each
// optimizer once, skip its step where one is not finite, and adapt the scale once per iteration.
// The scale, its counters and the found-inf flags live on the device.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // loss * scale; its gradient carries the scale into the backward.
  Tensor scale(const Tensor& loss);
  // Divides the optimizer's gradients by the scale and notes whether one is not finite. Optional
  // before step(); needed before clipping.
  void unscale(Steppable& optimizer);
  // Unscales unless that was done, then updates the parameters or leaves them alone. A factor (f32
  // [1]), such as one that clips, multiplies the gradients on the way.
  StepReport step(Steppable& optimizer, const Tensor& gradient_factor = {});
  // Ends an iteration: adapts the scale to what all optimizers found.
  void update();
  // Notes another run of an iteration that was recorded (backend/graph.h), after it was started:
  // the recording itself is none. Not for a scaler that retests, as the host then chooses scales.
  void note_run();
  // Ends an iteration with a scale of the caller's choice.
  void update(double new_scale);

  bool enabled() const { return options_.enabled; }
  double get_scale() const;
  int64_t growth_tracker() const;
  // Steps skipped since the last applied one, as far as the host knows.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  // Waits for what is still on its way from the device.
  ScalerState state();
  void load_state(const ScalerState& state);

 private:
  enum class Stage : uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    Tensor found_inf;  // undefined where no gradient was checked
    Tensor first_bad;  // i32 [1]: which of `checked` it was first found in
    Tensor scale;      // f32 [1]: what the gradients were multiplied by
    std::vector<Tensor> checked;
  };
  // An iteration whose outcome the host has not looked at.
  struct PendingIteration {
    backend::AsyncScalar found_inf, scale;
  };

  PerOptimizer& state_of(Steppable& optimizer) { return optimizers_[&optimizer]; }
  void require_scale(const char* call) const;
  void check_gradients(Steppable& optimizer, PerOptimizer& state);
  // Looks at the outcomes that are old enough to be there, or at all of them.
  void read(bool all);
  void note(const PendingIteration& iteration);
  void note_overflow();

  GradScalerOptions options_;
  backend::LossScaleParams numbers_;
  Tensor scale_;  // undefined until first used
  Tensor trackers_;
  std::unordered_map<Steppable*, PerOptimizer> optimizers_;
  std::deque<PendingIteration> unread_;
  PendingIteration recorded_;  // of the iteration recorded last
  int64_t skipped_in_a_row_ = 0;
  int64_t overflows_in_a_row_ = 0;
  double resting_scale_ = 0;  // what the scale returns to after a retest at 1; 0: none running
};

}  // namespace binade::amp
