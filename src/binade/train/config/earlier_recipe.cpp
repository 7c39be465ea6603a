#include "binade/train/config/earlier_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/train/config/overrides.h"

namespace binade::train {
namespace {

// A key and the field of a recipe that has taken its place; empty: the recipe's name.
constexpr std::pair<std::string_view, std::string_view> fields[] = {
    {"fp8_scaling", ""},      {"fp8_format", "format"},         {"fp8_history", "history"},
    {"fp8_margin", "margin"}, {"fp8_skip_first", "skip_first"}, {"fp8_skip_last", "skip_last"},
    {"fp8_head", "head"},     {"fp8_hidden", "hidden"}};
constexpr std::string_view override_keys[] = {"fp8", "fp8_scaling", "fp8_forward", "fp8_dgrad",
                                              "fp8_wgrad"};

template <class T>
T value_of(const EarlierKeys& keys, std::string_view key, T otherwise) {
  const auto found = keys.find(key);
  if (found == keys.end()) return otherwise;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  fail("config", {.argument = "[precision] " + std::string(key),
                  .expected = std::is_same_v<T, bool>      ? "true or false"
                              : std::is_same_v<T, int64_t> ? "a whole number"
                                                           : "a text",
                  .found = "another kind of value",
                  .hint = "this key of an earlier version is now a field of recipe"});
}

bool is_on(const EarlierKeys& keys, std::string_view key, bool otherwise) {
  return value_of<bool>(keys, key, otherwise);
}

[[noreturn]] void refuse_value(std::string_view key, std::string expected, std::string found) {
  fail("config", {.argument = "[precision] " + std::string(key),
                  .expected = std::move(expected),
                  .found = std::move(found)});
}

// The first name is the default.
constexpr std::string_view earlier_scalings[] = {"delayed", "current", "row", "block", "mx"};
constexpr std::string_view earlier_formats[] = {"hybrid", "e4m3"};

std::string one_name_of(const EarlierKeys& keys, std::string_view key,
                        std::span<const std::string_view> names) {
  const std::string given = value_of<std::string>(keys, key, std::string(names.front()));
  if (std::find(names.begin(), names.end(), given) == names.end())
    refuse_value(key, fmt::format("one of {}", fmt::join(names, ", ")), json::in_quotes(given));
  return given;
}

struct EarlierRange {
  int64_t low, high, otherwise;
};
int64_t whole_number(const EarlierKeys& keys, std::string_view key, const EarlierRange& range) {
  const int64_t given = value_of<int64_t>(keys, key, range.otherwise);
  if (given < range.low || given > range.high)
    refuse_value(key, fmt::format("a whole number from {} to {}", range.low, range.high),
                 std::to_string(given));
  return given;
}

}  // namespace

bool is_earlier_key(std::string_view name) {
  return std::any_of(std::begin(fields), std::end(fields),
                     [name](const auto& one) { return one.first == name; });
}

bool is_earlier_override_key(std::string_view name) {
  return std::find(std::begin(override_keys), std::end(override_keys), name) !=
         std::end(override_keys);
}

std::string recipe_text(const EarlierKeys& keys) {
  const std::string scaling = one_name_of(keys, "fp8_scaling", earlier_scalings);
  const bool delayed = scaling == "delayed";
  std::string text = scaling;
  if (one_name_of(keys, "fp8_format", earlier_formats) == "e4m3") text += ", format = \"e4m3\"";
  const int64_t history = whole_number(keys, "fp8_history", {1, 65536, 16}),
                margin = whole_number(keys, "fp8_margin", {-64, 64, 0});
  // Other earlier_scalings ignored these.
  if (delayed) text += fmt::format(", history = {}, margin = {}", history, margin);
  for (const char* key : {"skip_first", "skip_last"})
    text +=
        fmt::format(", {} = {}", key, whole_number(keys, std::string("fp8_") + key, {0, 1024, 0}));
  if (is_on(keys, "fp8_head", false)) text += ", head = true";
  if (is_on(keys, "fp8_hidden", false) && delayed) text += ", hidden = true";
  return text;
}

std::string override_text(const EarlierKeys& entry, const EarlierKeys& run) {
  if (!is_on(entry, "fp8", true)) return no_recipe;
  std::string matmuls;
  for (const char* matmul : {"forward", "dgrad", "wgrad"}) {
    if (is_on(entry, std::string("fp8_") + matmul, true))
      matmuls += fmt::format("{}\"{}\"", matmuls.empty() ? "" : ", ", matmul);
  }
  const std::string text = fmt::format("matmuls = [{}]", matmuls);
  const auto scaling = entry.find("fp8_scaling");
  if (scaling == entry.end()) return text;
  EarlierKeys keys = run;
  keys["fp8_scaling"] = scaling->second;
  return recipe_text(keys) + ", " + text;
}

std::optional<std::string> recipe_option_for(std::string_view option) {
  std::string key(option.substr(std::min(option.find_first_not_of('-'), option.size())));
  key = key.substr(0, key.find('='));
  std::replace(key.begin(), key.end(), '-', '_');
  for (const auto& [earlier, field] : fields) {
    if (earlier != key) continue;
    if (field.empty()) return "--recipe delayed|current|row|block|mx";
    const std::string_view example = field == "format"                      ? "\"e4m3\""
                                     : field == "head" || field == "hidden" ? "true"
                                                                            : "N";
    return fmt::format("--recipe 'delayed, {} = {}'", field, example);
  }
  return {};
}

}  // namespace binade::train
