#include "binade/train/config/overrides.h"

#include <fmt/format.h>

#include "binade/base/error.h"
#include "binade/train/config/toml_text.h"

namespace binade::train {
namespace {

void write(std::string& text, const char* key, const std::optional<bool>& value) {
  if (value) text += fmt::format("{} = {}\n", key, *value);
}

}  // namespace

void check(const PrecisionOverride& entry, const std::string& where) {
  const auto refuse = [&where](const char* key, std::string expected, std::string found) {
    fail("config", {.argument = where + ": " + key,
                    .expected = std::move(expected),
                    .found = std::move(found)});
  };
  if (entry.op && !entry.run)
    refuse("run", fmt::format("the class that op {} runs in", name(*entry.op)), "none");
  if (!entry.run && !entry.names_fp8())
    refuse("[[precision.override]]", "run, fp8, fp8_scaling, fp8_forward, fp8_dgrad or fp8_wgrad",
           "none of them");
}

std::string to_toml(const PrecisionOverrides& overrides) {
  std::string text;
  for (const PrecisionOverride& entry : overrides) {
    text += "\n[[precision.override]]\n";
    text += fmt::format("module = {}\n", toml_string(entry.module));
    if (entry.op) text += fmt::format("op = {}\n", toml_string(name(*entry.op)));
    if (entry.run) text += fmt::format("run = {}\n", toml_string(name(*entry.run)));
    write(text, "fp8", entry.fp8);
    if (entry.fp8_scaling)
      text += fmt::format("fp8_scaling = {}\n", toml_string(name(*entry.fp8_scaling)));
    write(text, "fp8_forward", entry.fp8_forward);
    write(text, "fp8_dgrad", entry.fp8_dgrad);
    write(text, "fp8_wgrad", entry.fp8_wgrad);
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

amp::Fp8State fp8_state_of(bool enabled, const amp::Fp8Recipe& recipe,
                           const PrecisionOverrides& overrides) {
  amp::Fp8State state{enabled, recipe, {}};
  for (const PrecisionOverride& entry : overrides) {
    if (!entry.names_fp8()) continue;
    amp::Fp8Recipe other = recipe;
    const bool on = entry.fp8.value_or(true);
    other.forward = on && entry.fp8_forward.value_or(recipe.forward);
    other.dgrad = on && entry.fp8_dgrad.value_or(recipe.dgrad);
    other.wgrad = on && entry.fp8_wgrad.value_or(recipe.wgrad);
    if (entry.fp8_scaling) other.scaling = *entry.fp8_scaling;
    state.overrides[entry.module] = other;
  }
  return state;
}

void exclude(amp::Fp8State& state, const std::string& module) {
  amp::Fp8Recipe off = state.recipe;
  off.forward = off.dgrad = off.wgrad = false;
  state.overrides[module] = off;
  // An override of a longer path would win over this one.
  std::erase_if(state.overrides,
                [&](const auto& entry) { return entry.first.starts_with(module + "."); });
}

}  // namespace binade::train
