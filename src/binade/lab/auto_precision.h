#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "binade/lab/layer_stats.h"
#include "binade/train/config/precision_plan.h"

namespace binade::lab {

// The recipe that a layer moves to before bf16: one scale per row. None if the recipe's own are as
// fine.
std::optional<amp::Recipe> finer_recipe(const amp::Recipe& recipe);

// Decides from the statistics of several steps how the layers of a run with a recipe compute their
// matmuls. A matmul is harmed if the median harm of the last looks is above max_harm. If a finer
// recipe mends some of a layer's harmed matmuls, the layer moves to it; those that it does not mend
// move to bf16. The layer moves back if its harm by the run's recipe stays below healthy_harm.
class AutoPrecision {
 public:
  // Looks whose median decides: one unusual batch, or the first scale of a delayed recipe, does
  // not.
  static constexpr size_t window = 3;
  // As many healthy looks move a layer back, twice the window: moving costs nothing, but a layer
  // should not go to and fro.
  static constexpr size_t healthy_looks = 6;
  // Far from both sides: medians of healthy runs were at most 0.03, those of layers that lose all
  // but one channel 0.97 (docs/doctor.md).
  static constexpr double max_harm = 0.25;
  // Below the harm of healthy layers beside a hostile one.
  static constexpr double healthy_harm = 0.1;
  // A finer recipe must leave a matmul as healthy as others are, with some margin: one lost channel
  // of sixteen is too much.
  static constexpr double mended_harm = 0.05;

  // Decides for a run with this recipe.
  explicit AutoPrecision(const amp::Recipe& recipe = amp::recipes::delayed())
      : finer_(finer_recipe(recipe)) {}

  // Takes up the state of a run that is resumed: its changes, then each look with add().
  void take_up(const train::PrecisionPlan& plan) { plan_ = plan; }
  // Adds a look without deciding.
  void add(const std::vector<LayerStats>& layers, int64_t step);
  // Adds a look. Returns the changes it leads to, which are part of plan() then.
  std::vector<train::Promotion> look(const std::vector<LayerStats>& layers, int64_t step);

  const train::PrecisionPlan& plan() const { return plan_; }

 private:
  using Harm = std::array<double, 3>;  // of the forward, dgrad and wgrad matmuls
  // A layer at one step: by the run's recipe, and with finer scales.
  struct Look {
    int64_t step;
    Harm harm, finer;
  };

  // Over the last looks, of which there are enough.
  static Harm median(const std::deque<Look>& looks, Harm Look::*member);
  std::optional<train::Promotion> decide(const std::string& module, int64_t step) const;

  std::optional<amp::Recipe> finer_;
  train::PrecisionPlan plan_;
  std::map<std::string, std::deque<Look>> looks_;
};

// "step 8: blocks.1.mlp.up moves to the recipe row, dgrad to bf16: the run's recipe loses 62% of
// its signal".
std::string to_text(const train::Promotion& change);

// The looks of a run's layers.jsonl up to a step, with their harm.
struct PastLook {
  int64_t step;
  std::vector<LayerStats> layers;
};
std::vector<PastLook> read_looks(const io::Path& path, int64_t until);

}  // namespace binade::lab
