#include "binade/base/suggestion.h"

#include <algorithm>
#include <utility>

#include "binade/base/text.h"

namespace binade {

std::string likely_name(std::string_view given, const std::vector<std::string>& names) {
  const size_t most = (given.size() + 1) / 3;
  std::string likely;
  size_t least = most + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(given, name);
    // One that shares no letter with a short word is no better than any other.
    if (distance >= least || distance >= name.size()) continue;
    least = distance;
    likely = name;
  }
  if (!likely.empty() || given.size() < 3) return likely;
  for (const std::string& name : names) {
    if (name.starts_with(given) && (likely.empty() || name.size() < likely.size())) likely = name;
  }
  return likely;
}

std::string likely_choice(std::string_view given, const std::vector<std::string>& choices) {
  constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"bfloat16", "bf16"},    {"float16", "fp16"}, {"float16", "f16"}, {"f16", "fp16"},
      {"fp16", "f16"},         {"half", "fp16"},    {"half", "f16"},    {"float32", "fp32"},
      {"float32", "f32"},      {"f32", "fp32"},     {"fp32", "f32"},    {"gpu", "cuda"},
      {"adamw_torch", "adamw"}};
  constexpr size_t longest = 80;
  std::string name(given.substr(0, longest));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto is_one = [&](std::string_view one) {
    return std::find(choices.begin(), choices.end(), one) != choices.end();
  };
  if (is_one(name)) return name;
  for (const auto& [other, own] : others) {
    if (name == other && is_one(own)) return std::string(own);
  }
  return likely_name(name, choices);
}

}  // namespace binade
