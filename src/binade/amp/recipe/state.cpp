#include "binade/amp/recipe/state.h"

#include <algorithm>

#include "binade/autograd/module_path.h"
#include "binade/base/execution.h"
#include "binade/base/random.h"

namespace binade::amp {
namespace {

// A forward is repeated by its recipe. Null: none.
constinit execution::Slot<std::shared_ptr<const RecipeState>> thread_recipe(
    execution::Belongs::to_work);

std::shared_ptr<const RecipeState> checked(RecipeState state) {
  if (state.enabled) state.recipe.check();
  for (const auto& [path, recipe] : state.overrides) recipe.check();
  return std::make_shared<const RecipeState>(std::move(state));
}

// Whether `path` is `module` or a module below it.
bool at_or_below(std::string_view path, std::string_view module) {
  return path == module ||
         (path.starts_with(module) && path.size() > module.size() && path[module.size()] == '.');
}

// Whether the run's last steps, which the recipe leaves out, have begun.
bool is_over(const Recipe& recipe, int64_t steps) {
  return recipe.until < 1 && steps > 0 &&
         static_cast<double>(random::context().step) >= recipe.until * static_cast<double>(steps);
}

}  // namespace

const RecipeState& recipe_state() {
  static const RecipeState none;
  const RecipeState* const state = thread_recipe->get();
  return state == nullptr ? none : *state;
}

QuantizedAutocast::QuantizedAutocast(const Recipe& recipe)
    : QuantizedAutocast(RecipeState{.enabled = true, .recipe = recipe}) {}

QuantizedAutocast::QuantizedAutocast(RecipeState state)
    : state_(*thread_recipe, checked(std::move(state))) {}

const Recipe* current_recipe() {
  const RecipeState& state = recipe_state();
  if (!state.enabled) return nullptr;
  const std::string& path = autograd::module_path();
  const Recipe* recipe = &state.recipe;
  size_t longest = 0;
  for (const auto& [module, other] : state.overrides) {
    if (!at_or_below(path, module) || module.size() < longest) continue;
    recipe = &other;
    longest = module.size();
  }
  const bool excluded =
      std::any_of(recipe->exclude.begin(), recipe->exclude.end(),
                  [&](const std::string& module) { return at_or_below(path, module); });
  const bool is_used = recipe->matmuls.any() && !is_over(*recipe, state.steps);
  return excluded || !is_used ? nullptr : recipe;
}

const Recipe* current_head_recipe() {
  const Recipe* recipe = current_recipe();
  return recipe != nullptr && recipe->has_head() ? recipe : nullptr;
}

}  // namespace binade::amp
