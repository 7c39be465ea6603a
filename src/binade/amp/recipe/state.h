#pragma once

#include <map>
#include <memory>
#include <string>

#include "binade/amp/recipe/recipe.h"
#include "binade/base/restore.h"

namespace binade::amp {

// A thread's recipe, with others for some module paths: a part of its execution state
// (base/execution.h).
struct RecipeState {
  bool enabled = false;
  Recipe recipe = {};
  std::map<std::string, Recipe, std::less<>> overrides = {};  // the longest matching path wins
  int64_t steps = 0;  // of the run, for Recipe::until; 0: unknown
};

const RecipeState& recipe_state();

// For its lifetime, linear layers of this thread run by a recipe:
//
//   const amp::QuantizedAutocast fp8(amp::recipes::delayed());
//   const amp::QuantizedAutocast blocks(amp::parse_recipe("block, head = true"));
//
// Guards nest.
class QuantizedAutocast {
 public:
  explicit QuantizedAutocast(const Recipe& recipe);
  explicit QuantizedAutocast(RecipeState state);

 private:
  Restore<std::shared_ptr<const RecipeState>> state_;
};

// The recipe of the current module; null if none of its matmuls is quantized.
const Recipe* current_recipe();
// The same for an LM head; null if the recipe leaves heads out.
const Recipe* current_head_recipe();

}  // namespace binade::amp
