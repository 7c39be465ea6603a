#include <fmt/format.h>

#include <algorithm>

#include "binade/amp/recipe/text.h"
#include "binade/base/suggestion.h"
#include "binade/base/toml_text.h"
#include "binade/train/config/aliases.h"
#include "binade/train/config/earlier_activations.h"
#include "binade/train/config/earlier_recipe.h"
#include "binade/train/config/keys.h"
#include "binade/train/config/numbers.h"

// Keys by their names, and their values in words.
namespace binade::train {

const Key* find_key(std::string_view section, std::string_view name) {
  for (const Key& key : keys()) {
    if (key.name == name && (section.empty() || key.section == section)) return &key;
  }
  return nullptr;
}

const Key* find_option(std::string name) {
  std::replace(name.begin() + 2, name.end(), '_', '-');
  for (const Key& key : keys()) {
    if (option_name(key) == name) return &key;
  }
  return nullptr;
}

std::string full_name(const Key& key) { return fmt::format("[{}] {}", key.section, key.name); }

const Key* likely_key(std::string_view name) {
  if (const Key* key = find_key("", own_name(name))) return key;
  std::vector<std::string> names;
  for (const Key& key : keys()) names.emplace_back(key.name);
  return find_key("", likely_name(name, names));
}

std::string expectation(const Key& key) {
  return std::visit(
      [](const auto& field) -> std::string {
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, Switch>) return "true or false";
        if constexpr (std::is_same_v<T, Whole>)
          return fmt::format("a whole number from {:.0f} to {:.0f}", field.low, field.high);
        if constexpr (std::is_same_v<T, Real>)
          return fmt::format("a {} from {:g} to {:g}", field.kind, field.low, field.high);
        if constexpr (std::is_same_v<T, Text>) return "a text";
        if constexpr (std::is_same_v<T, List>) return "an array of texts";
        if constexpr (std::is_same_v<T, RecipeText>) return "the text of a recipe";
        if constexpr (std::is_same_v<T, Spelled>) return std::string(field.expected);
        if constexpr (std::is_same_v<T, Choice>)
          return fmt::format("one of {}", fmt::join(field.names(), ", "));
      },
      key.field);
}

std::optional<std::string> replacement_of(std::string_view option) {
  const auto now = recipe_option_for(option);
  return now ? now : activations_option_for(option);
}

std::string value_text(const Key& key, const Config& config) {
  return std::visit(
      [&config](const auto& field) -> std::string {
        using T = std::decay_t<decltype(field)>;
        if constexpr (std::is_same_v<T, Choice> || std::is_same_v<T, Spelled>) {
          return toml_string(field.get(config));
        } else if constexpr (std::is_same_v<T, Text>) {
          return toml_string(field.member.get(config));
        } else if constexpr (std::is_same_v<T, List>) {
          std::string text;
          for (const std::string& one : field.member.get(config))
            text += (text.empty() ? "" : ", ") + toml_string(one);
          return "[" + text + "]";
        } else if constexpr (std::is_same_v<T, RecipeText>) {
          return toml_string(amp::to_text(field.member.get(config)));
        } else if constexpr (std::is_same_v<T, Real>) {
          return real_text(field.member.get(config));
        } else {
          return fmt::format("{}", field.member.get(config));
        }
      },
      key.field);
}

}  // namespace binade::train
