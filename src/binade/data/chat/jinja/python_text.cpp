#include "binade/data/chat/jinja/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

namespace binade::data::jinja {
namespace {

constexpr char32_t sharp_s = 0xDF;

bool is_line_end(char32_t code) {
  return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

bool in_set(char32_t code, std::string_view set) {
  for (size_t at = 0; at < set.size();) {
    const Character one = character_at(set, at);
    if (one.code == code) return true;
    at += one.bytes;
  }
  return false;
}

void append_upper(std::string& out, char32_t code) {
  if (code == sharp_s) {
    out += "SS";
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(code))));
  }
}

void append_lower(std::string& out, char32_t code) {
  append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(code))));
}

// Pieces at white space, from the left.
std::vector<std::string_view> split_at_space(std::string_view text, int64_t most) {
  std::vector<std::string_view> parts;
  text = stripped(text, Side::left);
  while (!text.empty()) {
    if (most >= 0 && std::cmp_equal(parts.size(), most)) {
      parts.push_back(stripped(text, Side::right));
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const Character one = character_at(text, end);
      if (is_python_space(one.code)) break;
      end += one.bytes;
    }
    parts.push_back(text.substr(0, end));
    text = stripped(text.substr(end), Side::left);
  }
  return parts;
}

// The text without white space around it and without the underscores that Python allows between
// digits; none if one stands elsewhere.
std::optional<std::string> number_text(std::string_view text) {
  text = stripped(text, Side::both);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const auto is_digit = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return {};
  }
  return digits;
}

}  // namespace

bool is_python_space(char32_t code) {
  return is_white_space(code) || (code >= 0x1C && code <= 0x1F);
}

std::string_view stripped(std::string_view text, Side side, std::optional<std::string_view> set) {
  const auto goes = [&](char32_t code) { return set ? in_set(code, *set) : is_python_space(code); };
  const auto sides = static_cast<unsigned>(side);
  while ((sides & 1U) != 0 && !text.empty()) {
    const Character first = character_at(text, 0);
    if (!goes(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while ((sides & 2U) != 0 && !text.empty()) {
    const size_t last = character_before(text, text.size());
    if (!goes(character_at(text, last).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

int64_t characters_in(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

size_t byte_of(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_at(text, at).bytes;
  return at;
}

std::string upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    append_upper(out, one.code);
    at += one.bytes;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    append_lower(out, one.code);
    at += one.bytes;
  }
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  const Character first = character_at(text, 0);
  std::string out;
  if (first.code == sharp_s) {
    out = "Ss";
  } else {
    append_character(out,
                     static_cast<char32_t>(utf8proc_totitle(static_cast<int32_t>(first.code))));
  }
  return out + lower(text.substr(first.bytes));
}

std::string titled(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    if (in_word) {
      append_lower(out, one.code);
    } else {
      out += capitalized(text.substr(at, one.bytes));
    }
    in_word = has_property(one.code, Property::cased_lower) ||
              has_property(one.code, Property::cased_upper);
    at += one.bytes;
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t most) {
  if (!separator) return split_at_space(text, most);
  std::vector<std::string_view> parts;
  for (size_t end; (most < 0 || std::cmp_less(parts.size(), most)) &&
                   (end = text.find(*separator)) != std::string_view::npos;) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + separator->size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_from_right(std::string_view text,
                                               std::optional<std::string_view> separator,
                                               int64_t most) {
  if (most < 0) return split(text, separator, most);
  std::vector<std::string_view> parts;
  while (std::cmp_less(parts.size(), most)) {
    if (!separator) text = stripped(text, Side::right);
    size_t end = std::string_view::npos, width = separator ? separator->size() : 0;
    if (separator) {
      end = text.rfind(*separator);
    } else {
      for (size_t at = text.size(); at > 0 && end == std::string_view::npos;) {
        at = character_before(text, at);
        const Character one = character_at(text, at);
        if (is_python_space(one.code)) end = at, width = one.bytes;
      }
    }
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(end + width));
    text = text.substr(0, end);
  }
  if (!separator)
    text = stripped(text, std::cmp_less(parts.size(), most) ? Side::both : Side::right);
  if (separator || !text.empty()) parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const size_t end = at;
    at += one.bytes;
    if (!is_line_end(one.code)) continue;
    if (one.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     int64_t most) {
  std::string out;
  int64_t done = 0;
  if (old.empty()) {  // between all characters
    for (size_t at = 0; at <= text.size() && (most < 0 || done < most); ++done) {
      out += by;
      if (at == text.size()) return out;
      const size_t bytes = character_at(text, at).bytes;
      out += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
    return out += text;
  }
  for (size_t end; (most < 0 || done < most) && (end = text.find(old)) != std::string_view::npos;
       ++done) {
    out += text.substr(0, end);
    out += by;
    text.remove_prefix(end + old.size());
  }
  return out += text;
}

int64_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return characters_in(text) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++count;
  return count;
}

bool has_property(char32_t code, Property property) {
  const auto character = static_cast<int32_t>(code);
  const utf8proc_category_t category = utf8proc_category(character);
  switch (property) {
    case Property::alphabetic:
      return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    case Property::decimal:
      return category == UTF8PROC_CATEGORY_ND;
    case Property::cased_lower:
      return utf8proc_islower(character) != 0;
    case Property::cased_upper:
      return category == UTF8PROC_CATEGORY_LT || utf8proc_isupper(character) != 0;
    case Property::printable:
      return code == ' ' || (category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS);
  }
  return false;
}

std::optional<int64_t> integer_of(std::string_view text, int base) {
  const auto found = number_text(text);
  if (!found) return {};
  std::string_view digits = *found;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
    const int named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      digits.remove_prefix(2);
    }
  }
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base == 0 ? 10 : base);
  const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (error != std::errc() || end != digits.data() + digits.size() || value > most) return {};
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::optional<double> float_of(std::string_view text) {
  const auto found = number_text(text);
  if (!found) return {};
  std::string digits = lower(*found);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  double value = 0;
  if (digits == "inf" || digits == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (digits == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    const bool is_number =
        !digits.empty() &&
        (std::isdigit(static_cast<unsigned char>(digits[0])) != 0 || digits[0] == '.');
    if (!is_number) return {};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return {};
    // Out of range: too large, or too small.
    if (error != std::errc()) value = std::strtod(digits.c_str(), nullptr);
  }
  return negative ? -value : value;
}

}  // namespace binade::data::jinja
