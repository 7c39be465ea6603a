#include "binade/train/config/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "binade/train/config/numbers.h"

namespace binade::train {
namespace {

constexpr std::pair<std::string_view, int64_t> units[] = {{"TiB", int64_t{1} << 40},
                                                          {"TB", 1'000'000'000'000},
                                                          {"GiB", int64_t{1} << 30},
                                                          {"GB", 1'000'000'000},
                                                          {"MiB", int64_t{1} << 20},
                                                          {"MB", 1'000'000},
                                                          {"KiB", int64_t{1} << 10},
                                                          {"kB", 1'000},
                                                          {"B", 1}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  const double value = parse_real(text.substr(0, end)).value_or(0);
  const std::string_view unit =
      text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  for (const auto& [name, factor] : units) {
    const double bytes = value * static_cast<double>(factor);
    if (same_letters(unit, name) && bytes >= 1 && bytes < 0x1p60)
      return static_cast<int64_t>(bytes);
  }
  return {};
}

std::string spelled_bytes(int64_t bytes) {
  for (const auto& [name, factor] : units) {
    if (bytes % factor == 0) return fmt::format("{}{}", bytes / factor, name);
  }
  return fmt::format("{}B", bytes);
}

std::optional<MemoryBudget> parse_budget(std::string_view text) {
  if (text == "auto") return MemoryBudget{};
  if (text == "least") return MemoryBudget{.kind = MemoryBudget::Kind::least};
  if (const auto bytes = parse_bytes(text))
    return MemoryBudget{.kind = MemoryBudget::Kind::bytes, .bytes = *bytes};
  return {};
}

std::string to_text(const MemoryBudget& budget) {
  switch (budget.kind) {
    case MemoryBudget::Kind::automatic:
      return "auto";
    case MemoryBudget::Kind::least:
      return "least";
    case MemoryBudget::Kind::bytes:
      break;
  }
  return spelled_bytes(budget.bytes);
}

}  // namespace binade::train
