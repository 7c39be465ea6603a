#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

// Recipes as earlier versions wrote them: keys fp8_* in [precision] and in [[precision.override]],
// which config.toml files of old runs have.
namespace binade::train {

using EarlierValue = std::variant<bool, int64_t, std::string>;

// Keys in [precision] with their values, or those of one override.
using EarlierKeys = std::map<std::string, EarlierValue, std::less<>>;

// Whether [precision], or an override, had such a key.
bool is_earlier_key(std::string_view name);
bool is_earlier_override_key(std::string_view name);

// The text form (amp/recipe/text.h) of the recipe that the keys meant. Fails, naming the key, for a
// value that it could not have.
std::string recipe_text(const EarlierKeys& keys);
// recipe_text() of an override in a run with these keys.
std::string override_text(const EarlierKeys& entry, const EarlierKeys& run);

// How `--recipe` says what an option like --fp8-head said; none for other options.
std::optional<std::string> recipe_option_for(std::string_view option);

}  // namespace binade::train
