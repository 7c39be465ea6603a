#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace binade::data::jinja {

enum class TokenKind : uint8_t {
  data,  // text between tags
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,  // a string literal, unescaped
  integer,
  real,
  symbol,  // an operator or bracket
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text = {};
};

// The tokens of a template in valid UTF-8, as jinja2 reads it with trim_blocks and lstrip_blocks.
// Throws a LocatedRefusal.
std::vector<Token> tokens_of(std::string_view source);

// A Refusal at a line of the template.
struct LocatedRefusal {
  int line;
  std::string expected, found;
};

// For messages: "the end of the template", "'%}'".
std::string described(const Token& token);

}  // namespace binade::data::jinja
