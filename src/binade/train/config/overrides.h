#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/amp/recipe/state.h"

// Precision by module and by op: the entries of [[precision.override]] in a configuration.
namespace binade::train {

// One exception from the run's precision. It applies inside `module` (a path such as
// "blocks.0.mlp"; empty: everywhere) and all modules below it; the longest path wins.
struct PrecisionOverride {
  std::string module;
  std::optional<Op> op = {};          // with `run`: this op only; none: every op
  std::optional<CastClass> run = {};  // class of the ops under autocast
  // The text form of a recipe, or none (no_recipe). Without a name it starts from the run's.
  std::optional<std::string> recipe = {};
  bool operator==(const PrecisionOverride&) const = default;
};

using PrecisionOverrides = std::vector<PrecisionOverride>;

// Fails, naming `where`, for an op without a class and for an entry that overrides nothing.
void check(const PrecisionOverride& entry, const std::string& where);

// The entries as TOML; empty if there are none.
std::string to_toml(const PrecisionOverrides& overrides);

// The text of an override that leaves the autocast type to all matmuls.
inline constexpr const char* no_recipe = "none";
// The recipe that an override's text means in a run with the recipe `base`.
amp::Recipe recipe_of_override(const std::string& text, const amp::Recipe& base);

// The autocast policy, and the recipes by module, with the overrides.
amp::Policy policy_of(const PrecisionOverrides& overrides);
amp::RecipeState recipe_state_of(bool enabled, const amp::Recipe& recipe,
                                 const PrecisionOverrides& overrides);

// Excludes `module` and all modules below it from the recipe.
void exclude(amp::RecipeState& state, const std::string& module);

}  // namespace binade::train
