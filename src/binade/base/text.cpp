#include "binade/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace binade {
namespace {

struct CodeRange {
  char32_t first, last;
};
// Category Cf of Unicode, and the separators U+2028 and U+2029; ascending.
constexpr CodeRange format_ranges[] = {
    {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},
    {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x180E, 0x180E},
    {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F},
    {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0001, 0xE007F},
};

// The code point of one well-formed character.
char32_t code_of(std::string_view character) {
  const auto byte = [character](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(character[i]));
  };
  if (character.size() <= 1) return character.empty() ? 0 : byte(0);
  char32_t code = byte(0) & (0x7FU >> character.size());
  for (size_t i = 1; i < character.size(); ++i) code = code << 6U | (byte(i) & 0x3FU);
  return code;
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool good = !(first == 0xE0 && second < 0xA0) && !(first == 0xED && second > 0x9F);
    return good && continues(at + 1) && continues(at + 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool good = !(first == 0xF0 && second < 0x90) && !(first == 0xF4 && second > 0x8F);
    return good && continues(at + 1) && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

bool is_control(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  return character.size() == 2 && byte(0) == 0xC2 && byte(1) < 0xA0;
}

bool is_bidi_control(std::string_view character) {
  const char32_t code = code_of(character);
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

bool is_format(std::string_view character) {
  const char32_t code = code_of(character);
  const auto* range =
      std::lower_bound(std::begin(format_ranges), std::end(format_ranges), code,
                       [](const CodeRange& one, char32_t c) { return one.last < c; });
  return range != std::end(format_ranges) && range->first <= code;
}

std::string visible(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    const std::string_view character = text.substr(at, std::max<size_t>(length, 1));
    if (length > 0 && !is_control(character) && !is_format(character)) {
      result += character;
    } else {
      for (const char c : character)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    at += character.size();
  }
  return result;
}

std::string unicode_escaped(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_length(text, at), 1);
    const std::string_view character = text.substr(at, length);
    const auto code = static_cast<uint32_t>(code_of(character));
    const bool hidden = is_control(character) || is_format(character);
    result += hidden && code <= 0xFFFF ? fmt::format("\\u{:04x}", code) : std::string(character);
    at += length;
  }
  return result;
}

std::string grouped(int64_t number) {
  std::string text = fmt::format("{}", number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string signed_percent(double fraction, int decimals) {
  const std::string text = fmt::format("{:+.{}f}%", 100 * fraction, decimals);
  return text.find_first_not_of("+-0.%") == text.npos ? text.substr(1) : text;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);  // the rows of the last prefixes of `a`
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  // After a mismatch the last * takes one byte more; earlier ones need not change.
  size_t p = 0, t = 0, star = std::string_view::npos, resumed = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumed = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resumed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string listed(const std::vector<std::string>& items, std::string_view word) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " " + std::string(word) + " " : ", ";
    text += items[i];
  }
  return text;
}

std::string shortened(std::string_view text, size_t limit) {
  return text.size() <= limit ? std::string(text) : std::string(text.substr(0, limit)) + "...";
}

std::string shortened_from_left(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  return "..." + std::string(text.substr(text.size() - (limit - 3)));
}

}  // namespace binade
