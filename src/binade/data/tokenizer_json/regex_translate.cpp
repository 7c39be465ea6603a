#include <algorithm>
#include <array>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/tokenizer_json/regex.h"

namespace binade::data {
namespace {

bool is_hex(char c) {
  return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Translates a pattern of Oniguruma (Ruby's syntax) to PCRE2. Refuses everything that is not
// certain to mean the same.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (!done()) {
      switch (peek()) {
        case '\\':
          escape();
          break;
        case '[':
          open_class();
          break;
        case ']':
          close_class();
          break;
        case '(':
          group();
          break;
        case '{':
          interval();
          break;
        case '&':
          if (in_class_ && rest().starts_with("&&")) refuse("&&");
          [[fallthrough]];
        default:
          copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  bool done() const { return at_ == pattern_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return pattern_.substr(at_); }
  void copy(size_t count) {
    out_ += rest().substr(0, count);
    at_ += std::min(count, pattern_.size() - at_);
  }
  void replace(size_t count, std::string_view by) {
    out_ += by;
    at_ += count;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("tokenizer",
         {.argument = where_,
          .expected = "a regular expression without what Oniguruma and PCRE2 read differently",
          .found = json::in_quotes(what) + " at byte " + std::to_string(at_) + " of " +
                   json::in_quotes(pattern_)});
  }

  void escape() {
    const char c = peek(1);
    switch (c) {
      case 's':  // PCRE2's includes U+180E
        return replace(2, "\\p{White_Space}");
      case 'S':
        return replace(2, "\\P{White_Space}");
      case 'd':
        return replace(2, "\\p{Nd}");
      case 'D':
        return replace(2, "\\P{Nd}");
      case 'v':
        return replace(2, "\\x0b");
      case 'p':
      case 'P':
        return property();
      case 'x':
      case 'u':
        return code_point();
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return copy(2);
      case 'A':
      case 'z':
        if (in_class_) refuse(rest().substr(0, 2));
        return copy(2);
      default:
        if (c == '\0' || is_ascii_letter(c) || is_ascii_digit(c)) refuse(rest().substr(0, 2));
        copy(2);
    }
  }

  // Short names of general categories mean the same. A script's name means its script extensions to
  // PCRE2 unless "sc:" is before it.
  void property() {
    static constexpr std::array<std::string_view, 3> binary = {"White_Space", "Alphabetic",
                                                               "Extended_Pictographic"};
    const size_t end = rest().find('}');
    if (peek(2) != '{' || end == std::string_view::npos) refuse(rest().substr(0, 3));
    std::string_view name = rest().substr(3, end - 3);
    out_ += rest().substr(0, 3);
    if (name.starts_with('^')) {
      out_ += '^';
      name.remove_prefix(1);
    }
    if (name.empty() || !std::all_of(name.begin(), name.end(),
                                     [](char c) { return is_ascii_letter(c) || c == '_'; }))
      refuse(rest().substr(0, end + 1));
    const bool is_category = name.size() <= 2 && name[0] >= 'A' && name[0] <= 'Z';
    if (!is_category && std::find(binary.begin(), binary.end(), name) == binary.end())
      out_ += "sc:";
    out_ += name;
    out_ += '}';
    at_ += end + 1;
  }

  // \x41, \x{4e00}, \u4e00. To Oniguruma two digits are a byte.
  void code_point() {
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    const size_t begin = braces ? 3 : 2;
    size_t end = begin;
    while (is_hex(peek(end))) ++end;
    if (!braces) end = std::min<size_t>(end, begin + (peek(1) == 'x' ? 2 : 4));
    const std::string_view digits = rest().substr(begin, end - begin);
    const bool good = braces           ? !digits.empty() && peek(end) == '}'
                      : peek(1) == 'u' ? digits.size() == 4
                                       : digits.size() == 2 && digits[0] < '8';
    if (!good) refuse(rest().substr(0, end));
    replace(end + (braces ? 1 : 0), "\\x{" + std::string(digits) + "}");
  }

  void open_class() {
    if (in_class_) refuse("[ in a class");
    in_class_ = true;
    copy(peek(1) == '^' ? 2 : 1);
    if (peek() == ']') refuse("[]");
  }

  void close_class() {
    in_class_ = false;
    copy(1);
  }

  void group() {
    if (in_class_) return copy(1);
    if (peek(1) == '*') refuse("(*");
    if (peek(1) != '?') return copy(1);
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (rest().starts_with(known)) return copy(known.size());
    }
    size_t end = 2;
    while (is_ascii_letter(peek(end)) || peek(end) == '-') ++end;
    const std::string_view flags = rest().substr(2, end - 2);
    // Inside a pattern, the scope of (?i) differs.
    const bool whole = peek(end) == ')' && at_ == 0;
    if ((flags != "i" && flags != "-i" && flags != "m") || (peek(end) != ':' && !whole))
      refuse(rest().substr(0, end + 1));
    out_ += "(?";
    out_ += flags == "m" ? "s" : flags;  // dotall
    at_ += end;
    copy(1);
  }

  // {n}, {n,}, {n,m} and {,m}, which PCRE2 does not know. A ? or + after them differs.
  void interval() {
    size_t end = 1;
    while (is_ascii_digit(peek(end)) || peek(end) == ',') ++end;
    if (in_class_ || end == 1 || peek(end) != '}') return copy(1);
    const char next = peek(end + 1);
    const bool exact = rest().substr(0, end).find(',') == std::string_view::npos;
    if (next == '+' || (next == '?' && exact)) refuse(rest().substr(0, end + 2));
    if (peek(1) == ',') replace(1, "{0");
    copy(rest().find('}') + 1);
  }

  std::string_view pattern_;
  const std::string& where_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string translated_pattern(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace binade::data
