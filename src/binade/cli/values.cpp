#include "binade/cli/values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "binade/base/suggestion.h"
#include "binade/train/config/numbers.h"

namespace binade::cli {
namespace {

// CLI11 shows the description in --help, behind the kind of value: "INT:1..4096".
CLI::Validator validator(std::function<std::string(std::string&)> check,
                         const std::string& description = {}) {
  return {std::move(check), description};
}

// As the C library reads it, and CLI11 afterwards: also in hexadecimal.
std::optional<double> parse_double(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || end != text.c_str() + text.size() ? std::nullopt : std::optional(number);
}

std::string refusal(const std::string& expected, const std::string& text) {
  return fmt::format("expected {}, found '{}'", expected, text);
}

}  // namespace

CLI::Validator whole_number() {
  return validator([](std::string& text) -> std::string {
    const std::optional<int64_t> number = train::parse_whole(text);
    if (!number) return refusal("a whole number", text);
    text = std::to_string(*number);
    return {};
  });
}

CLI::Validator whole_number(int64_t low, int64_t high) {
  return validator(
      [low, high](std::string& text) -> std::string {
        const std::optional<int64_t> number = train::parse_whole(text);
        if (!number || *number < low || *number > high)
          return refusal(fmt::format("a whole number from {} to {}", low, high), text);
        text = std::to_string(*number);
        return {};
      },
      fmt::format("{}..{}", low, high));
}

CLI::Validator real_number() {
  return validator([](std::string& text) -> std::string {
    return parse_double(text) ? std::string() : refusal("a number", text);
  });
}

CLI::Validator real_number(double low, double high) {
  return validator(
      [low, high](std::string& text) -> std::string {
        const std::optional<double> number = parse_double(text);
        return number && *number >= low && *number <= high
                   ? std::string()
                   : refusal(fmt::format("a number from {:g} to {:g}", low, high), text);
      },
      fmt::format("{:g}..{:g}", low, high));
}

CLI::Validator one_of(std::initializer_list<std::string> names) {
  return validator(
      [all = std::vector<std::string>(names)](std::string& text) -> std::string {
        if (std::find(all.begin(), all.end(), text) != all.end()) return {};
        const std::string likely = likely_choice(text, all);
        return refusal(fmt::format("one of {}", fmt::join(all, ", ")), text) +
               (likely.empty() ? "" : fmt::format("; did you mean {}?", likely));
      },
      fmt::format("{}", fmt::join(names, "|")));
}

}  // namespace binade::cli
