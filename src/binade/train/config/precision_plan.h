#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/recipe/recipe.h"
#include "binade/io/path.h"

namespace binade::train {

// A change of the precision of a linear layer in a run with a recipe: single matmuls move to bf16,
// the others to another recipe, or all back to the run's.
struct Promotion {
  std::string module;
  int64_t step = 0;  // of the run that wrote the plan
  double harm = 0;   // fraction of the signal lost to the recipe at that step, 0 to 1
  std::optional<amp::Recipe> moved_to = {};  // none: the run's own
  // Matmuls that run in bf16.
  bool forward = true, dgrad = true, wgrad = true;

  // Whether the layer is back at the run's recipe.
  bool is_demotion() const { return !moved_to && !forward && !dgrad && !wgrad; }
  // The layer's recipe in a run whose own is `base`.
  amp::Recipe recipe(const amp::Recipe& base) const;
  bool operator==(const Promotion&) const = default;
};

// The changes of a run in order of time. Other runs apply them from their first step.
struct PrecisionPlan {
  std::vector<Promotion> layers;

  // The latest change of a module; null if it has none or is back at the run's recipe.
  const Promotion* find(const std::string& module) const;
  // The latest changes of all modules that are not back at the run's recipe.
  std::vector<Promotion> current() const;
  bool operator==(const PrecisionPlan&) const = default;
};

// As JSON. Reading is strict: an error names the file, the position, expected and found.
PrecisionPlan read_precision_plan(const io::Path& path);
void write_precision_plan(const PrecisionPlan& plan, const io::Path& path);

}  // namespace binade::train
