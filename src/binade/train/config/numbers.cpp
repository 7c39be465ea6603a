#include "binade/train/config/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace binade::train {
namespace {

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace

std::optional<int64_t> parse_whole(std::string_view text) {
  if (const auto number = parse_number<int64_t>(text)) return number;
  const auto real = parse_real(text);
  constexpr double most = 0x1p53;  // beyond it a double is not exact
  if (!real || !(std::abs(*real) <= most) || std::trunc(*real) != *real) return {};
  return static_cast<int64_t>(*real);
}

std::optional<double> parse_real(std::string_view text) { return parse_number<double>(text); }

std::string real_text(double number) {
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

}  // namespace binade::train
