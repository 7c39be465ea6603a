#include "binade/data/chat/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data::jinja {
namespace {

constexpr std::array two_byte_symbols = {"==", "!=", ">=", "<=", "//", "**"};
constexpr std::string_view one_byte_symbols = "+-/*%~[](){}><=.:|,;";

bool is_name_start(char32_t code) {
  return code == '_' || has_property(code, Property::alphabetic);
}
bool is_name_part(char32_t code) {
  return is_name_start(code) || has_property(code, Property::decimal);
}

// Line ends as "\n", without the last one.
std::string normalized_source(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view source) : source_(normalized_source(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse_here(std::string expected, std::string found) const {
    throw LocatedRefusal{line_, std::move(expected), std::move(found)};
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().starts_with(text); }

  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
    starts_line_ = bytes > 0 && source_[at_ - 1] == '\n';
  }
  void skip_space() {
    const std::string_view text = rest();
    advance(text.size() - stripped(text, Side::left).size());
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  // Text up to the next tag, and the tag.
  void read_data() {
    size_t begin = at_;
    do {
      begin = source_.find('{', begin);
    } while (begin != std::string::npos && ++begin < source_.size() &&
             std::string_view("{%#").find(source_[begin]) == std::string_view::npos);
    if (begin == std::string::npos || begin >= source_.size()) {
      add(TokenKind::data, std::string(rest()));
      return advance(rest().size());
    }
    const char kind = source_[begin--];
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    std::string_view text = rest().substr(0, begin - at_);
    if (sign == '-') {
      text = stripped(text, Side::right);
    } else if (kind != '{' && sign != '+') {
      text = without_indent(text);
    }
    if (!text.empty()) add(TokenKind::data, std::string(text));
    advance(begin - at_);
    const bool has_sign = sign == '-' || sign == '+';
    if (kind == '#') return read_comment(has_sign ? 3 : 2);
    advance(has_sign ? 3 : 2);
    if (kind == '%' && read_raw()) return;
    add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, {});
    read_tag(kind == '{');
  }

  // lstrip_blocks: without white space between the beginning of a line and a tag.
  std::string_view without_indent(std::string_view text) const {
    const size_t line_end = text.rfind('\n');
    if (line_end == std::string_view::npos && !starts_line_) return text;
    const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
    return stripped(text.substr(begin), Side::left).empty() ? text.substr(0, begin) : text;
  }

  // Goes past the end of a tag whose sign, if it has one, is at at_. trim_blocks takes a line's
  // end.
  void end_tag(size_t bytes, bool trims_line) {
    const bool minus = source_[at_] == '-', plus = source_[at_] == '+';
    advance(bytes + (minus || plus ? 1 : 0));
    if (minus) return skip_space();
    if (!plus && trims_line && next_is("\n")) advance(1);
  }

  void read_comment(size_t begin_bytes) {
    const size_t begin = at_ + begin_bytes, end = source_.find("#}", begin);
    if (end == std::string::npos) refuse_here("'#}' after '{#'", "the end of the template");
    const bool has_sign = end > begin && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(end - at_ - (has_sign ? 1 : 0));
    end_tag(2, true);
  }

  // After "{%": whether this is a raw block, which is read.
  bool read_raw() {
    const size_t begin = at_ + (rest().size() - stripped(rest(), Side::left).size());
    if (!std::string_view(source_).substr(begin).starts_with("raw")) return false;
    std::string_view after = stripped(std::string_view(source_).substr(begin + 3), Side::left);
    const bool minus = after.starts_with("-%}");
    if (!minus && !after.starts_with("%}")) return false;
    advance(source_.size() - after.size() - at_);
    end_tag(2, false);
    for (size_t end = at_; (end = source_.find("{%", end)) != std::string::npos; ++end) {
      const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
      const size_t name = end + (sign == '-' || sign == '+' ? 3 : 2);
      after =
          stripped(std::string_view(source_).substr(std::min(name, source_.size())), Side::left);
      if (!after.starts_with("endraw")) continue;
      after = stripped(after.substr(6), Side::left);
      const bool signed_end = after.starts_with("-%}") || after.starts_with("+%}");
      if (!signed_end && !after.starts_with("%}")) continue;
      std::string_view text = rest().substr(0, end - at_);
      if (sign == '-') text = stripped(text, Side::right);
      if (sign != '-' && sign != '+') text = without_indent(text);
      add(TokenKind::data, std::string(text));
      advance(source_.size() - after.size() - at_);
      end_tag(2, true);
      return true;
    }
    refuse_here("'{% endraw %}' after '{% raw %}'", "the end of the template");
  }

  void read_tag(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    for (std::string brackets;;) {
      skip_space();
      if (at_ == source_.size())
        refuse_here("'" + std::string(end) + "'", "the end of the template");
      const bool has_sign = next_is("-") || (!is_variable && next_is("+"));
      if (brackets.empty() && rest().substr(has_sign ? 1 : 0).starts_with(end)) {
        add(is_variable ? TokenKind::variable_end : TokenKind::block_end, std::string(end));
        return end_tag(2, !is_variable);
      }
      read_token(brackets);
    }
  }

  void read_token(std::string& brackets) {
    const Character first = character_at(source_, at_);
    if (first.code == '"' || first.code == '\'') return read_text();
    if (first.code < 0x80 && is_ascii_digit(static_cast<char>(first.code))) return read_number();
    if (is_name_start(first.code)) return read_name();
    for (const std::string_view symbol : two_byte_symbols) {
      if (next_is(symbol)) return read_symbol(symbol.size());
    }
    const char byte = source_[at_];
    if (one_byte_symbols.find(byte) == std::string_view::npos)
      refuse_here("a token of an expression", json::in_quotes(rest().substr(0, first.bytes)));
    if (byte == '(') brackets += ')';
    if (byte == '[') brackets += ']';
    if (byte == '{') brackets += '}';
    if (byte == ')' || byte == ']' || byte == '}') {
      if (brackets.empty() || brackets.back() != byte)
        refuse_here(
            brackets.empty() ? "the end of the tag" : std::string("'") + brackets.back() + "'",
            std::string("'") + byte + "'");
      brackets.pop_back();
    }
    read_symbol(1);
  }

  void read_symbol(size_t bytes) {
    add(TokenKind::symbol, std::string(rest().substr(0, bytes)));
    advance(bytes);
  }

  void read_name() {
    size_t end = at_;
    while (end < source_.size()) {
      const Character one = character_at(source_, end);
      if (!is_name_part(one.code)) break;
      end += one.bytes;
    }
    add(TokenKind::name, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  size_t digits_from(size_t at) const {
    size_t end = at;
    while (end < source_.size() && (is_ascii_digit(source_[end]) ||
                                    (source_[end] == '_' && end > at && end + 1 < source_.size() &&
                                     is_ascii_digit(source_[end + 1]))))
      ++end;
    return end;
  }

  void read_number() {
    size_t end = digits_from(at_);
    if (source_[at_] == '0' && end == at_ + 1 && end < source_.size() &&
        std::string_view("xXoObB").find(source_[end]) != std::string_view::npos)
      refuse_here("a decimal number", json::in_quotes(source_.substr(at_, 2)));
    bool is_real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_ascii_digit(source_[end + 1])) {
      end = digits_from(end + 1);
      is_real = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const bool has_sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
      const size_t exponent = end + (has_sign ? 2 : 1);
      if (digits_from(exponent) > exponent) {
        end = digits_from(exponent);
        is_real = true;
      }
    }
    add(is_real ? TokenKind::real : TokenKind::integer, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void read_text() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) refuse_here("the end of a text", "the end of the template");
    add(TokenKind::text, unescaped_text(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  // The escapes of Python's literals.
  std::string unescaped_text(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char next = text[++i];
      static constexpr std::string_view letters = "ntr\\'\"abfv", bytes = "\n\t\r\\'\"\a\b\f\v";
      if (const size_t known = letters.find(next); known != std::string_view::npos) {
        out += bytes[known];
      } else if (next == 'x' || next == 'u' || next == 'U') {
        const size_t digits = next == 'x' ? 2 : next == 'u' ? 4 : 8;
        append_code(out, text.substr(i + 1, digits), digits, 16);
        i += digits;
      } else if (next >= '0' && next <= '7') {
        size_t digits = 1;
        while (digits < 3 && i + digits < text.size() && text[i + digits] >= '0' &&
               text[i + digits] <= '7')
          ++digits;
        append_code(out, text.substr(i, digits), digits, 8);
        i += digits - 1;
      } else if (next == 'N') {
        refuse_here("an escape with digits", "\\N");
      } else if (next != '\n') {  // an escaped line end is nothing
        out += '\\';
        out += next;
      }
    }
    return out;
  }

  void append_code(std::string& out, std::string_view digits, size_t count, int base) const {
    const auto code = integer_of(digits, base);
    const bool all_digits = digits.size() == count && digits.find_first_of("+-_ xX") == digits.npos;
    const bool is_character =
        code && all_digits && *code >= 0 && *code <= 0x10FFFF && (*code < 0xD800 || *code > 0xDFFF);
    if (!is_character) refuse_here("an escape of a character", json::in_quotes(digits));
    append_character(out, static_cast<char32_t>(*code));
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;  // the last token ended with a line's end
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return TemplateLexer(source).run(); }

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::data:
      return "text";
    case TokenKind::variable_begin:
      return "'{{'";
    case TokenKind::block_begin:
      return "'{%'";
    case TokenKind::text:
      return "the text " + json::in_quotes(token.text);
    default:
      return json::in_quotes(token.text);
  }
}

}  // namespace binade::data::jinja
