#include "binade/base/suggestion.h"

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

}  // namespace binade
