#include "binade/data/mixture.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "binade/base/error.h"
#include "binade/data/token_file.h"

namespace binade::data {
namespace {

// A weight and its asterisk.
struct Weight {
  double value;
  size_t end;  // behind the asterisk
};

std::optional<Weight> weight_at(const std::string& text, size_t at) {
  at = std::min(text.find_first_not_of(' ', at), text.size());
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  const auto end = static_cast<size_t>(rest - text.data());
  if (error != std::errc() || end >= text.size() || text[end] != '*') return {};
  return Weight{value, end + 1};
}

}  // namespace

std::vector<MixturePart> mixture_of(const std::string& data) {
  std::vector<MixturePart> parts;
  auto weight = weight_at(data, 0);
  if (!weight) return {{data, 1}};
  while (weight) {
    size_t end = weight->end;
    std::optional<Weight> next;
    do {
      end = std::min(data.find(',', end + (end > weight->end ? 1 : 0)), data.size());
      if (end < data.size()) next = weight_at(data, end + 1);
    } while (end < data.size() && !next);
    const MixturePart part{data.substr(weight->end, end - weight->end), weight->value};
    if (part.where.empty() || !(part.weight > 0) || !std::isfinite(part.weight))
      fail("data", {.argument = "--data " + data,
                    .expected = "a positive weight and a source, such as 0.5*book.txt",
                    .found = data.substr(0, end)});
    parts.push_back(part);
    weight = next;
  }
  return parts;
}

bool are_token_files(const std::string& data) {
  return std::ranges::all_of(mixture_of(data),
                             [](const MixturePart& part) { return is_token_file(part.where); });
}

}  // namespace binade::data
