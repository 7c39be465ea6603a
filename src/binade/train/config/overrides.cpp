#include "binade/train/config/overrides.h"

#include <fmt/format.h>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/base/toml_text.h"

namespace binade::train {
void check(const PrecisionOverride& entry, const std::string& where) {
  const auto refuse = [&where](const char* key, std::string expected, std::string found) {
    fail("config", {.argument = where + ": " + key,
                    .expected = std::move(expected),
                    .found = std::move(found)});
  };
  if (entry.op && !entry.run)
    refuse("run", fmt::format("the class that op {} runs in", name(*entry.op)), "none");
  if (!entry.run && !entry.recipe) refuse("[[precision.override]]", "run or recipe", "neither");
}

std::string to_toml(const PrecisionOverrides& overrides) {
  std::string text;
  for (const PrecisionOverride& entry : overrides) {
    text += "\n[[precision.override]]\n";
    text += fmt::format("module = {}\n", toml_string(entry.module));
    if (entry.op) text += fmt::format("op = {}\n", toml_string(name(*entry.op)));
    if (entry.run) text += fmt::format("run = {}\n", toml_string(name(*entry.run)));
    if (entry.recipe) text += fmt::format("recipe = {}\n", toml_string(*entry.recipe));
  }
  return text;
}

amp::Policy policy_of(const PrecisionOverrides& overrides) {
  amp::Policy policy;
  for (const PrecisionOverride& entry : overrides) {
    if (!entry.run) continue;
    if (entry.op) {
      policy.set(*entry.op, *entry.run, entry.module);
    } else {
      policy.set_module(entry.module, *entry.run);
    }
  }
  return policy;
}

amp::Recipe recipe_of_override(const std::string& text, const amp::Recipe& base) {
  if (text != no_recipe) return amp::parse_recipe(text, {.base = &base});
  amp::Recipe off = base;
  off.matmuls = {false, false, false};
  return off;
}

amp::RecipeState recipe_state_of(bool enabled, const amp::Recipe& recipe,
                                 const PrecisionOverrides& overrides) {
  amp::RecipeState state{enabled, recipe, {}};
  for (const PrecisionOverride& entry : overrides) {
    if (!entry.recipe) continue;
    state.overrides[entry.module] = recipe_of_override(*entry.recipe, recipe);
  }
  return state;
}

void exclude(amp::RecipeState& state, const std::string& module) {
  state.overrides[module] = recipe_of_override(no_recipe, state.recipe);
  // An override of a longer path would win over this one.
  std::erase_if(state.overrides,
                [&](const auto& entry) { return entry.first.starts_with(module + "."); });
}

}  // namespace binade::train
