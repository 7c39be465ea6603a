#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "binade/amp/step.h"
#include "binade/backend/scaler.h"

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

// What became of one step.
struct StepReport {
  bool applied = true;
  std::string reason;    // empty where applied
  Tensor bad_parameter;  // the first one with a gradient that is not finite
  double scale = 1;      // the scale its gradients were made with
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
  // Unscales unless that was done, then updates the parameters or leaves them alone.
  StepReport step(Steppable& optimizer);
  // Ends an iteration: adapts the scale to what all optimizers found.
  void update();
  // Ends an iteration with a scale of the caller's choice.
  void update(double new_scale);

  bool enabled() const { return options_.enabled; }
  double get_scale() const;
  int64_t growth_tracker() const;
  // Steps skipped since the last applied one.
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  ScalerState state() const;
  void load_state(const ScalerState& state);

 private:
  enum class Stage : uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    Tensor found_inf;  // undefined where no gradient was checked
  };

  PerOptimizer& state_of(Steppable& optimizer) { return optimizers_[&optimizer]; }
  void require_scale(const char* call) const;
  void check_gradients(Steppable& optimizer, PerOptimizer& state);
  StepReport skipped(const Steppable& optimizer);
  void note_overflow();

  GradScalerOptions options_;
  backend::ScaleNumbers numbers_;
  Tensor scale_;  // undefined until first used
  Tensor trackers_;
  std::unordered_map<Steppable*, PerOptimizer> optimizers_;
  int64_t skipped_in_a_row_ = 0;
  int64_t overflows_in_a_row_ = 0;
  double resting_scale_ = 0;  // what the scale returns to after a retest at 1; 0: none running
};

}  // namespace binade::amp
