#include "binade/train/config/earlier_recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/error.h"
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

std::string format_field(const EarlierKeys& keys) {
  const std::string format = value_of<std::string>(keys, "fp8_format", "hybrid");
  return format == "hybrid" ? "" : fmt::format(", format = \"{}\"", format);
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
  const std::string scaling = value_of<std::string>(keys, "fp8_scaling", "delayed");
  const bool delayed = scaling == "delayed";
  std::string text = scaling + format_field(keys);
  // Other scalings ignored these.
  if (delayed)
    text += fmt::format(", history = {}, margin = {}", value_of<int64_t>(keys, "fp8_history", 16),
                        value_of<int64_t>(keys, "fp8_margin", 0));
  for (const char* key : {"skip_first", "skip_last"})
    text += fmt::format(", {} = {}", key, value_of<int64_t>(keys, std::string("fp8_") + key, 0));
  if (is_on(keys, "fp8_head", false)) text += ", head = true";
  if (delayed && is_on(keys, "fp8_hidden", false)) text += ", hidden = true";
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
  const std::string scaling = value_of<std::string>(entry, "fp8_scaling", "");
  return scaling.empty() ? text : scaling + format_field(run) + ", " + text;
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
