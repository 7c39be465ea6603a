#include "binade/amp/fp8.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/autograd/module_path.h"
#include "binade/base/error.h"

namespace binade::amp {
namespace {

constexpr std::string_view scaling_names[] = {"delayed", "current", "row", "block", "mx"};

std::shared_ptr<const Fp8State>& fp8_state_of_thread() {
  thread_local std::shared_ptr<const Fp8State> state = std::make_shared<Fp8State>();
  return state;
}

std::shared_ptr<const Fp8State> shared(Fp8State state) {
  state.recipe.check();
  for (const auto& [path, recipe] : state.overrides) recipe.check();
  return std::make_shared<const Fp8State>(std::move(state));
}

// Whether `path` is `module` or a module below it.
bool at_or_below(std::string_view path, std::string_view module) {
  return path == module ||
         (path.starts_with(module) && path.size() > module.size() && path[module.size()] == '.');
}

}  // namespace

void Fp8Recipe::check() const {
  const auto refuse = [](const char* argument, const char* expected, double found) {
    fail("Fp8Recipe",
         {.argument = argument, .expected = expected, .found = fmt::format("{}", found)});
  };
  if (history < 1 || history > 65536) refuse("history", "1 to 65536", history);
  if (margin < -64 || margin > 64) refuse("margin", "-64 to 64", margin);
  if (!(eps >= 0)) refuse("eps", "at least 0", eps);
  if (skip_first < 0 || skip_last < 0)
    refuse("skip_first, skip_last", "at least 0",
           static_cast<double>(std::min(skip_first, skip_last)));
}

DType fp8_type(const Fp8Recipe& recipe, Fp8Role role) {
  return recipe.format == Fp8Format::hybrid && role == Fp8Role::gradient ? DType::e5m2
                                                                         : DType::e4m3;
}

std::string_view name(Fp8Scaling scaling) { return scaling_names[static_cast<size_t>(scaling)]; }

Fp8Scaling parse_fp8_scaling(std::string_view text) {
  const auto* found = std::find(std::begin(scaling_names), std::end(scaling_names), text);
  if (found == std::end(scaling_names)) {
    fail("Fp8Recipe", {.argument = "scaling",
                       .expected = "delayed, current, row, block or mx",
                       .found = "'" + std::string(text) + "'"});
  }
  return static_cast<Fp8Scaling>(found - std::begin(scaling_names));
}

const Fp8State& fp8_state() { return *fp8_state_of_thread(); }

Fp8Autocast::Fp8Autocast(const Fp8Recipe& recipe)
    : Fp8Autocast(Fp8State{.enabled = true, .recipe = recipe}) {}

Fp8Autocast::Fp8Autocast(Fp8State state)
    : state_(fp8_state_of_thread(), shared(std::move(state))) {}

const Fp8Recipe* fp8_recipe() {
  const Fp8State& state = fp8_state();
  if (!state.enabled) return nullptr;
  const std::string& path = autograd::module_path();
  const Fp8Recipe* recipe = &state.recipe;
  size_t longest = 0;
  for (const auto& [module, other] : state.overrides) {
    if (!at_or_below(path, module) || module.size() < longest) continue;
    recipe = &other;
    longest = module.size();
  }
  const bool excluded =
      std::any_of(recipe->exclude.begin(), recipe->exclude.end(),
                  [&](const std::string& module) { return at_or_below(path, module); });
  return excluded || !(recipe->forward || recipe->dgrad || recipe->wgrad) ? nullptr : recipe;
}

const Fp8Recipe* fp8_head_recipe() {
  const Fp8Recipe* recipe = fp8_recipe();
  const bool has_head =
      recipe != nullptr && recipe->head && recipe->forward && recipe->dgrad && recipe->wgrad;
  return has_head ? recipe : nullptr;
}

bool stores_hidden(const Fp8Recipe& recipe) {
  return recipe.hidden && recipe.scaling == Fp8Scaling::delayed && recipe.forward && recipe.dgrad &&
         recipe.wgrad;
}

}  // namespace binade::amp
