#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "binade/data/chat/jinja/lexer.h"
#include "binade/data/chat/jinja/syntax.h"

namespace binade::data::jinja {

inline constexpr int max_nesting = 100;         // of tags, brackets and operators
inline constexpr size_t max_arguments = 1'000;  // of a call or a macro

// Numbers for the names of variables.
class Names {
 public:
  int id_of(const std::string& name) {
    return ids_.try_emplace(name, static_cast<int>(ids_.size())).first->second;
  }
  // -1: the template does not use the name.
  int find(const std::string& name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<std::string, int> ids_;
};

struct Parsed {
  Block body = {};
  Names names = {};
  bool has_generation = false;  // {% generation %} blocks
};

// The variable that the filters of a block set apply to; no template can name it.
inline constexpr const char* captured_text = "{% set %}";

// Parses a template. Throws a LocatedRefusal.
Parsed parse_template(std::string_view source);

// The tokens of a template, one after the other.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_.back(); }
  bool is_symbol(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::symbol && peek(ahead).text == text;
  }
  bool is_name(std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::name && peek(ahead).text == text;
  }
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_symbol(std::string_view text);
  void expect_name(std::string_view text);
  std::string take_name();
  [[noreturn]] void refuse_token(std::string expected) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Parses expressions as jinja2's parser does, with the same precedence.
class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, Names& names) : tokens_(tokens), names_(names) {}

  ExpressionPtr expression();
  // Without a conditional expression, as `if` and `for` take it.
  ExpressionPtr unconditional();
  // An expression, or a tuple of them without brackets. It ends before the name `end`.
  ExpressionPtr tuple(bool conditional = true, std::string_view end = {});
  // The filters of a block set; null if there are none. They apply to a name that is not there.
  ExpressionPtr filters_of(ExpressionPtr value);

 private:
  friend class Nesting;

  Expression start(ExpressionKind kind) const;
  ExpressionPtr finish(Expression expression) const;
  ExpressionPtr chain(ExpressionKind kind, std::string_view word,
                      ExpressionPtr (ExpressionParser::*next)());
  ExpressionPtr binary(ExpressionPtr left, ExpressionKind kind, ExpressionPtr right);
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter);
  ExpressionPtr unary_with_filters() { return unary(true); }
  ExpressionPtr primary();
  ExpressionPtr number();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr member_of(ExpressionPtr value);
  ExpressionPtr call_of(ExpressionPtr value);
  ExpressionPtr subscript_of(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr test_of(ExpressionPtr value);
  Arguments arguments();

  TokenStream& tokens_;
  Names& names_;
  int nesting_ = 0;
};

}  // namespace binade::data::jinja
