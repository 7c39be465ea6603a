#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "binade/amp/skip_streak.h"
#include "binade/amp/steppable.h"
#include "binade/backend/async_scalar.h"
#include "binade/backend/loss_scale_params.h"

namespace binade::amp {

struct GradScalerOptions {
  bool enabled = true;
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  // Beyond PyTorch; the defaults behave as PyTorch does.
  // Overflows tolerated before the scale shrinks (DeepSpeed and Megatron: 2).
  int64_t hysteresis = 1;
  // If not 0: the smallest scale, at which an overflow is an error.
  double minimum_scale = 0;
  // If not 0: this many skipped steps in a row are an error.
  int64_t skip_budget = 0;
  // If not 0: after this many overflows in a row one step runs at scale 1.
  int64_t retest_after = 0;
  Device device = Device::cpu();
};

// The outcome of one step. A GPU computes it asynchronously: asking right after the step waits for
// it, asking a step or two later does not.
class StepReport {
 public:
  bool applied() const;
  // Why it was skipped; empty if it was applied.
  std::string reason() const;
  // The first parameter with a non-finite gradient; undefined if there is none.
  Tensor bad_parameter() const;
  // The loss scale of its gradients.
  double scale() const;
  // Calls of this iteration that cannot be meant, such as a scaled loss that no backward used. Each
  // kind is passed to the warning function (amp/warnings.h), too, once per scaler.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The outcome of the latest replay of a captured step (backend/graph.h).
  StepReport replayed() const;

 private:
  friend class GradScaler;
  backend::AsyncScalar found_inf_, first_bad_, scale_;  // undefined without a scaler
  std::vector<Tensor> checked_;                         // in the order of first_bad_
  bool at_scale_one_ = false;                           // a retest
  std::vector<std::string> warnings_;
};

// Says that the gradients of these were clipped. A scaler that unscales them later in the iteration
// warns.
void note_clipped(const std::vector<Tensor>& parameters);

// A scaler's saved state. Empty if the scaler is disabled.
using ScalerState = std::map<std::string, double>;

// The outcome of an unscale(), for processes that each check a part of the gradients: they agree on
// one and write it here before step().
struct GradientCheck {
  Tensor found_inf;  // f32 [1]: 1 if an element is non-finite, else 0
  Tensor first_bad;  // i32 [1]: the smallest index of a parameter with such an element
};

// Dynamic loss scaling with PyTorch's semantics: scale the loss, unscale the gradients of each
// optimizer once, skip its step if a gradient is non-finite, and adapt the scale once per
// iteration. The scale, its counters and the found-inf flags live on the device.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // loss * scale in f32 (f64 for f64), in which a 16-bit loss does not overflow; the backward
  // multiplies its gradient by the scale too.
  Tensor scale(const Tensor& loss);
  // Divides the optimizer's gradients by the scale and checks whether one is non-finite. Optional
  // before step(); needed before clipping.
  void unscale(Steppable& optimizer);
  // The outcome of the optimizer's unscale(), which step() and update() follow.
  GradientCheck check_of(Steppable& optimizer);
  // Unscales unless that was done, then updates the parameters, or skips the update if a gradient
  // is non-finite. A factor (f32 [1]), such as one that clips, multiplies the gradients.
  StepReport step(Steppable& optimizer, const Tensor& gradient_factor = {});
  // Ends an iteration: adapts the scale by the outcome of all optimizers.
  void update();
  // Counts a replay of a captured iteration (backend/graph.h), after its launch; the capture itself
  // is not an iteration. Not for a scaler that retests, because the host then chooses scales.
  void note_run();
  // Ends an iteration with the given scale.
  void update(double new_scale);

  bool enabled() const { return options_.enabled; }
  double get_scale() const;
  int64_t growth_tracker() const;
  // Steps skipped since the last applied one, as far as the host knows.
  int64_t skipped_in_a_row() const { return skipped_.length(); }

  // Waits for outcomes that the device has not computed yet.
  ScalerState state();
  // Takes the state of a Binade or a PyTorch scaler. Within an iteration it remembers which
  // optimizers are unscaled or have stepped.
  void load_state(const ScalerState& state);

 private:
  enum class Stage : uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    Tensor found_inf;  // undefined if no gradient was checked
    Tensor first_bad;  // i32 [1]: index in `checked` of the first non-finite gradient
    Tensor scale;      // f32 [1]: the loss scale of the gradients
    std::vector<Tensor> checked;
  };
  // The gradient of a parameter after a step().
  struct Gradient {
    Tensor parameter;
    std::weak_ptr<const Storage> storage = {};
    uint64_t version = 0;

    // Whether it was neither dropped nor written since.
    bool is_as_it_was() const;
  };
  // The calls of an iteration, which backwards of scaled losses outlive.
  struct Use {
    bool is_scaled = false;                // scale() was called
    bool ran_backward = false;             // through the result of one
    std::optional<Gradient> stepped = {};  // of the last iteration
    bool adds_to_unscaled = false;         // that one, when backward began
    std::set<uint64_t> nodes = {};         // of the results
    std::vector<std::string> warnings = {};
  };
  // An iteration whose outcome the host has not read.
  struct PendingIteration {
    backend::AsyncScalar found_inf, scale;
  };

  PerOptimizer& state_of(Steppable& optimizer);
  void require_scale(const char* call) const;
  // Keeps a warning for the report, and passes it on the first time.
  void warn_of(const std::string& text);
  void check_use();
  void check_gradients(Steppable& optimizer, PerOptimizer& state);
  // Reads the outcomes that are old enough not to wait for, or all of them.
  void read(bool all);
  void note(const PendingIteration& iteration);
  void note_overflow();

  GradScalerOptions options_;
  std::shared_ptr<Use> use_ = std::make_shared<Use>();
  std::optional<Gradient> stepped_;  // in this iteration
  std::set<std::string> warned_;
  backend::LossScaleParams hyper_;
  Tensor scale_;  // undefined until first used
  Tensor trackers_;
  std::unordered_map<Steppable*, PerOptimizer> optimizers_;
  std::deque<PendingIteration> unread_;
  PendingIteration captured_;  // of the iteration captured last
  SkipStreak skipped_;
  SkipStreak overflows_;      // since the last retest
  double resting_scale_ = 0;  // the scale after a retest at 1 ends; 0 if none is running
};

}  // namespace binade::amp
