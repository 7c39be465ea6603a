#include "binade/nn/activations.h"

#include <fmt/format.h>

#include <charconv>

namespace binade::nn {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stopped != end || count < 0 || count > Activations::all) return {};
  return count;
}

// "lean = 4", "lean": the number of blocks of that kind.
std::optional<int64_t> parse_part(std::string_view text, std::string_view kind) {
  if (!text.starts_with(kind)) return {};
  const std::string_view rest = trimmed(text.substr(kind.size()));
  if (rest.empty()) return Activations::all;
  return rest.starts_with('=') ? parse_count(trimmed(rest.substr(1))) : std::nullopt;
}

// "keep = 8", "keep": of more than any model has, the number is left out.
std::string part(std::string_view kind, int64_t count) {
  return count >= Activations::all ? std::string(kind) : fmt::format("{} = {}", kind, count);
}

}  // namespace

std::string to_text(const Activations& activations) {
  const auto [kept, lean] = activations;
  if (kept == 0 && lean == 0) return "recompute";
  if (lean == 0 || kept >= Activations::all) return part("keep", kept);
  return (kept > 0 ? part("keep", kept) + ", " : "") + part("lean", lean);
}

std::optional<Activations> parse_activations(std::string_view given) {
  const std::string_view text = trimmed(given);
  if (text == "recompute") return Activations::recompute();
  if (const auto count = parse_count(text)) return Activations{.kept = *count, .lean = 0};
  const size_t comma = text.find(',');
  const std::string_view first = trimmed(text.substr(0, comma));
  if (comma != text.npos) {
    const auto kept = parse_part(first, "keep"),
               lean = parse_part(trimmed(text.substr(comma + 1)), "lean");
    if (!kept || !lean || *kept >= Activations::all) return {};
    return Activations{.kept = *kept, .lean = *lean};
  }
  if (const auto kept = parse_part(first, "keep")) return Activations{.kept = *kept, .lean = 0};
  if (const auto lean = parse_part(first, "lean")) return Activations{.kept = 0, .lean = *lean};
  return {};
}

}  // namespace binade::nn
