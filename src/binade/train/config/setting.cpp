#include "binade/train/config/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/suggestion.h"
#include "binade/base/text.h"
#include "binade/io/file.h"
#include "binade/train/config/numbers.h"

namespace binade::train {
namespace {

[[noreturn]] void refuse_setting(const Setting& setting, const std::string& found,
                                 const std::string& hint = "") {
  fail("config", {.argument = setting.where,
                  .expected = expectation(*setting.key),
                  .found = found,
                  .hint = hint});
}

// "a,b" as {"a", "b"}; empty parts are left out.
Texts split_list(std::string_view text) {
  Texts parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Writes a setting into its field, or refuses it.
class Assignment {
 public:
  Assignment(const Setting& setting, Config& config) : setting_(setting), config_(config) {}

  void operator()(const Switch& field) { field.member.in(config_) = value<bool>(); }
  void operator()(const Whole& field) {
    field.member.in(config_) = within(value<int64_t>(), field.low, field.high);
  }
  void operator()(const Real& field) {
    const auto* whole = std::get_if<int64_t>(&setting_.value);
    field.member.in(config_) = within(
        whole != nullptr ? static_cast<double>(*whole) : value<double>(), field.low, field.high);
  }
  void operator()(const Text& field) {
    field.member.in(config_) = without_zeros(value<std::string>());
  }
  void operator()(const List& field) {
    const auto* text = std::get_if<std::string>(&setting_.value);
    const auto* flag = std::get_if<bool>(&setting_.value);
    if (flag != nullptr && !field.alone.empty()) {
      field.member.in(config_) = *flag ? Texts{std::string(field.alone)} : Texts();
      return;
    }
    if (text == nullptr) {
      for (const std::string& one : value<Texts>()) without_zeros(one);
    }
    field.member.in(config_) = text != nullptr ? split_list(without_zeros(*text)) : value<Texts>();
  }
  void operator()(const RecipeText& field) {
    field.member.in(config_) =
        amp::parse_recipe(without_zeros(value<std::string>()), {.read_file = read_recipe_file});
  }
  void operator()(const Spelled& field) {
    const auto* whole = std::get_if<int64_t>(&setting_.value);  // activations = 8
    const std::string text = whole != nullptr ? std::to_string(*whole) : value<std::string>();
    if (field.set(config_, text)) return;
    const std::string likely = field.likely != nullptr ? field.likely(text) : "";
    refuse_setting(
        setting_, in_words(setting_.value),
        likely.empty() ? "" : fmt::format("did you mean {}{}?", option_before(), likely));
  }
  void operator()(const Choice& field) {
    const std::string& text = value<std::string>();
    if (field.set(config_, text)) return;
    const std::vector<std::string_view> names = field.names();
    const std::string likely = likely_choice(text, {names.begin(), names.end()});
    refuse_setting(
        setting_, in_words(setting_.value),
        likely.empty() ? "" : fmt::format("did you mean {}{}?", option_before(), likely));
  }

 private:
  template <class T>
  const T& value() const {
    const T* found = std::get_if<T>(&setting_.value);
    if (found == nullptr)
      refuse_setting(setting_, setting_.typed.empty() ? in_words(setting_.value) : setting_.typed);
    return *found;
  }

  // "--memory " of a setting on the command line.
  std::string option_before() const {
    return setting_.where.starts_with("--") ? setting_.where + " " : "";
  }

  // The system would end a path at a zero byte.
  const std::string& without_zeros(const std::string& text) const {
    if (text.find('\0') != std::string::npos)
      refuse_setting(setting_, in_words(text) + " with a zero byte");
    return text;
  }

  template <class T>
  T within(T number, double low, double high) const {
    const auto real = static_cast<double>(number);
    if (!std::isfinite(real) || real < low || real > high)
      refuse_setting(setting_, setting_.typed.empty() ? fmt::format("{}", number) : setting_.typed);
    return number;
  }

  const Setting& setting_;
  Config& config_;
};

}  // namespace

std::string in_words(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return json::in_quotes(*text);
  if (std::holds_alternative<Texts>(value)) return "an array";
  if (const auto* number = std::get_if<double>(&value)) return real_text(*number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return std::get<bool>(value) ? "true" : "false";
}

std::string read_recipe_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail("recipe", {.argument = "--recipe",
                    .expected = amp::recipes::names() + " or a file",
                    .found = json::in_quotes(shortened(path, max_name))});
  return io::read_text(path, "recipe", 1 << 20);
}

void apply(const Setting& setting, Config& config) {
  std::visit(Assignment(setting, config), setting.key->field);
}

}  // namespace binade::train
