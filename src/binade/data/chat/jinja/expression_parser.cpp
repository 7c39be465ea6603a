#include <algorithm>
#include <array>
#include <utility>

#include "binade/data/chat/jinja/parser.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data::jinja {

bool TokenStream::skip_symbol(std::string_view text) {
  const bool found = is_symbol(text);
  if (found) take();
  return found;
}

bool TokenStream::skip_name(std::string_view text) {
  const bool found = is_name(text);
  if (found) take();
  return found;
}

void TokenStream::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) refuse_token("'" + std::string(text) + "'");
}

void TokenStream::expect_name(std::string_view text) {
  if (!skip_name(text)) refuse_token("'" + std::string(text) + "'");
}

std::string TokenStream::take_name() {
  if (peek().kind != TokenKind::name) refuse_token("a name");
  return take().text;
}

void TokenStream::refuse_token(std::string expected) const {
  throw LocatedRefusal{peek().line, std::move(expected), described(peek())};
}

// For its lifetime, parsing is one level deeper.
class Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser.nesting_ > max_nesting)
      throw LocatedRefusal{parser.tokens_.peek().line,
                           "expressions of at most " + std::to_string(max_nesting) + " levels",
                           "more"};
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

Expression ExpressionParser::start(ExpressionKind kind) const {
  Expression made;
  made.kind = kind;
  made.line = tokens_.peek().line;
  return made;
}

ExpressionPtr ExpressionParser::finish(Expression expression) const {
  const auto deepen = [&](const ExpressionPtr& part) {
    if (part) expression.depth = std::max(expression.depth, part->depth + 1);
  };
  for (const ExpressionPtr& item : expression.items) deepen(item);
  for (const ExpressionPtr& item : expression.arguments.positional) deepen(item);
  for (const Keyword& keyword : expression.arguments.named) deepen(keyword.value);
  // Operators in a row nest without brackets.
  if (expression.depth > 2 * max_nesting)
    throw LocatedRefusal{expression.line,
                         "expressions of at most " + std::to_string(2 * max_nesting) + " levels",
                         "more"};
  return std::make_unique<const Expression>(std::move(expression));
}

ExpressionPtr ExpressionParser::expression() {
  const Nesting nesting(*this);
  ExpressionPtr value = either();
  while (tokens_.is_name("if")) {
    Expression made = start(ExpressionKind::conditional);
    tokens_.take();
    made.items.push_back(either());
    made.items.push_back(std::move(value));
    if (tokens_.skip_name("else")) made.items.push_back(expression());
    value = finish(std::move(made));
  }
  return value;
}

ExpressionPtr ExpressionParser::unconditional() {
  const Nesting nesting(*this);
  return either();
}

ExpressionPtr ExpressionParser::tuple(bool conditional, std::string_view end) {
  const auto item = [&] { return conditional ? expression() : unconditional(); };
  Expression made = start(ExpressionKind::tuple);
  made.items.push_back(item());
  if (!tokens_.is_symbol(",")) return std::move(made.items[0]);
  while (tokens_.skip_symbol(",")) {
    const TokenKind next = tokens_.peek().kind;
    if (next == TokenKind::variable_end || next == TokenKind::block_end || tokens_.is_symbol(")") ||
        (!end.empty() && tokens_.is_name(end)))
      break;
    made.items.push_back(item());
  }
  return finish(std::move(made));
}

// Operands in a row, as one expression.
ExpressionPtr ExpressionParser::chain(ExpressionKind kind, std::string_view word,
                                      ExpressionPtr (ExpressionParser::*next)()) {
  Expression made = start(kind);
  made.items.push_back((this->*next)());
  while (tokens_.skip_name(word) || tokens_.skip_symbol(word))
    made.items.push_back((this->*next)());
  return made.items.size() == 1 ? std::move(made.items[0]) : finish(std::move(made));
}

ExpressionPtr ExpressionParser::either() {
  return chain(ExpressionKind::either, "or", &ExpressionParser::both);
}
ExpressionPtr ExpressionParser::both() {
  return chain(ExpressionKind::both, "and", &ExpressionParser::negation);
}
ExpressionPtr ExpressionParser::concat() {
  return chain(ExpressionKind::concat, "~", &ExpressionParser::product);
}

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const Nesting nesting(*this);
  Expression made = start(ExpressionKind::negate);
  tokens_.take();
  made.items.push_back(negation());
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::comparison() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> symbols = {{
      {"==", Comparison::eq},
      {"!=", Comparison::ne},
      {"<", Comparison::lt},
      {"<=", Comparison::le},
      {">", Comparison::gt},
      {">=", Comparison::ge},
  }};
  Expression made = start(ExpressionKind::compare);
  made.items.push_back(sum());
  for (;;) {
    const auto symbol = std::find_if(symbols.begin(), symbols.end(),
                                     [&](const auto& one) { return tokens_.is_symbol(one.first); });
    if (symbol != symbols.end()) {
      tokens_.take();
      made.comparisons.push_back(symbol->second);
    } else if (tokens_.skip_name("in")) {
      made.comparisons.push_back(Comparison::in);
    } else if (tokens_.is_name("not") && tokens_.is_name("in", 1)) {
      tokens_.take();
      tokens_.take();
      made.comparisons.push_back(Comparison::not_in);
    } else {
      break;
    }
    made.items.push_back(sum());
  }
  return made.comparisons.empty() ? std::move(made.items[0]) : finish(std::move(made));
}

ExpressionPtr ExpressionParser::binary(ExpressionPtr left, ExpressionKind kind,
                                       ExpressionPtr right) {
  Expression made = start(kind);
  made.line = left->line;
  made.items.push_back(std::move(left));
  made.items.push_back(std::move(right));
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concat();
  for (;;) {
    if (tokens_.skip_symbol("+")) {
      left = binary(std::move(left), ExpressionKind::add, concat());
    } else if (tokens_.skip_symbol("-")) {
      left = binary(std::move(left), ExpressionKind::subtract, concat());
    } else {
      return left;
    }
  }
}

ExpressionPtr ExpressionParser::product() {
  static constexpr std::array<std::pair<std::string_view, ExpressionKind>, 4> symbols = {{
      {"*", ExpressionKind::multiply},
      {"/", ExpressionKind::divide},
      {"//", ExpressionKind::floor_divide},
      {"%", ExpressionKind::modulo},
  }};
  ExpressionPtr left = power();
  for (;;) {
    const auto symbol = std::find_if(symbols.begin(), symbols.end(), [&](const auto& one) {
      return tokens_.skip_symbol(one.first);
    });
    if (symbol == symbols.end()) return left;
    left = binary(std::move(left), symbol->second, power());
  }
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (tokens_.skip_symbol("**"))
    left = binary(std::move(left), ExpressionKind::power, unary(true));
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filter) {
  ExpressionPtr value;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    const Nesting nesting(*this);
    Expression made = start(tokens_.is_symbol("-") ? ExpressionKind::minus : ExpressionKind::plus);
    tokens_.take();
    made.items.push_back(unary(false));
    value = finish(std::move(made));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  Expression made = start(ExpressionKind::constant);
  switch (tokens_.peek().kind) {
    case TokenKind::name: {
      made.text = tokens_.take().text;
      const bool is_true = made.text == "true" || made.text == "True";
      if (is_true || made.text == "false" || made.text == "False") {
        made.constant = Value(is_true);
      } else if (made.text == "none" || made.text == "None") {
        made.constant = Value(nullptr);
      } else {
        made.kind = ExpressionKind::name;
        made.variable = names_.id_of(made.text);
      }
      return finish(std::move(made));
    }
    case TokenKind::text: {
      std::string text;
      while (tokens_.peek().kind == TokenKind::text) text += tokens_.take().text;
      made.constant = Value(std::move(text));
      return finish(std::move(made));
    }
    case TokenKind::integer:
    case TokenKind::real:
      return number();
    default:
      break;
  }
  if (tokens_.is_symbol("[")) return list();
  if (tokens_.is_symbol("{")) return dict();
  if (!tokens_.skip_symbol("(")) tokens_.refuse_token("an expression");
  if (tokens_.skip_symbol(")")) {
    made.kind = ExpressionKind::tuple;
    return finish(std::move(made));
  }
  ExpressionPtr inner = tuple();
  tokens_.expect_symbol(")");
  return inner;
}

ExpressionPtr ExpressionParser::number() {
  Expression made = start(ExpressionKind::constant);
  const std::string digits = tokens_.peek().text;
  if (tokens_.peek().kind == TokenKind::real) {
    made.constant = Value(float_of(digits).value_or(0));
  } else {
    const auto value = integer_of(digits, 10);
    if (!value || (digits[0] == '0' && *value != 0))
      tokens_.refuse_token("a whole number of 64 bits");
    made.constant = Value(*value);
  }
  tokens_.take();
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::list() {
  Expression made = start(ExpressionKind::list);
  tokens_.expect_symbol("[");
  while (!tokens_.is_symbol("]")) {
    made.items.push_back(expression());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("]");
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::dict() {
  Expression made = start(ExpressionKind::dict);
  tokens_.expect_symbol("{");
  while (!tokens_.is_symbol("}")) {
    made.items.push_back(expression());
    tokens_.expect_symbol(":");
    made.items.push_back(expression());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("}");
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (;;) {
    if (tokens_.is_symbol(".")) {
      value = member_of(std::move(value));
    } else if (tokens_.is_symbol("[")) {
      value = subscript_of(std::move(value));
    } else if (tokens_.is_symbol("(")) {
      value = call_of(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::member_of(ExpressionPtr value) {
  Expression made = start(ExpressionKind::attribute);
  tokens_.expect_symbol(".");
  made.items.push_back(std::move(value));
  if (tokens_.peek().kind == TokenKind::integer) {
    made.kind = ExpressionKind::subscript;
    made.items.push_back(number());
  } else {
    made.text = tokens_.take_name();
  }
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::call_of(ExpressionPtr value) {
  Expression made = start(ExpressionKind::call);
  made.items.push_back(std::move(value));
  made.arguments = arguments();
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::subscript_of(ExpressionPtr value) {
  Expression made = start(ExpressionKind::subscript);
  tokens_.expect_symbol("[");
  made.items.push_back(std::move(value));
  made.items.push_back(tokens_.is_symbol(":") ? nullptr : expression());
  if (tokens_.is_symbol(":")) made.kind = ExpressionKind::slice;
  for (int i = 0; i < 2 && tokens_.skip_symbol(":"); ++i) {
    const bool empty = tokens_.is_symbol(":") || tokens_.is_symbol("]");
    made.items.push_back(empty ? nullptr : expression());
  }
  if (made.kind == ExpressionKind::slice) made.items.resize(4);
  tokens_.expect_symbol("]");
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::filters_of(ExpressionPtr value) {
  while (tokens_.is_symbol("|")) {
    Expression made = start(ExpressionKind::filter);
    tokens_.take();
    made.text = tokens_.take_name();
    made.items.push_back(std::move(value));
    if (tokens_.is_symbol("(")) made.arguments = arguments();
    value = finish(std::move(made));
  }
  return value;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  for (;;) {
    if (tokens_.is_symbol("|")) {
      value = filters_of(std::move(value));
    } else if (tokens_.is_name("is")) {
      value = test_of(std::move(value));
    } else if (tokens_.is_symbol("(")) {
      value = call_of(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::test_of(ExpressionPtr value) {
  Expression made = start(ExpressionKind::test);
  tokens_.expect_name("is");
  const bool negated = tokens_.skip_name("not");
  made.text = tokens_.take_name();
  made.items.push_back(std::move(value));
  const TokenKind next = tokens_.peek().kind;
  const bool is_word = tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and");
  const bool is_value = next == TokenKind::text || next == TokenKind::integer ||
                        next == TokenKind::real || next == TokenKind::name ||
                        tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (tokens_.is_symbol("(")) {
    made.arguments = arguments();
  } else if (is_value && !is_word) {
    if (tokens_.is_name("is")) tokens_.refuse_token("one test; 'and' joins several");
    made.arguments.positional.push_back(postfix(primary()));
  }
  ExpressionPtr test = finish(std::move(made));
  if (!negated) return test;
  Expression opposite = start(ExpressionKind::negate);
  opposite.line = test->line;
  opposite.items.push_back(std::move(test));
  return finish(std::move(opposite));
}

Arguments ExpressionParser::arguments() {
  Arguments made;
  tokens_.expect_symbol("(");
  while (!tokens_.is_symbol(")")) {
    if (tokens_.is_symbol("*") || tokens_.is_symbol("**"))
      tokens_.refuse_token("arguments that are written out");
    if (made.positional.size() + made.named.size() == max_arguments)
      tokens_.refuse_token("at most " + std::to_string(max_arguments) + " arguments");
    if (tokens_.peek().kind == TokenKind::name && tokens_.is_symbol("=", 1)) {
      const int line = tokens_.peek().line;
      Keyword keyword{tokens_.take().text, nullptr};
      tokens_.take();
      const bool repeated =
          std::any_of(made.named.begin(), made.named.end(),
                      [&](const Keyword& one) { return one.name == keyword.name; });
      if (repeated) throw LocatedRefusal{line, "each argument once", keyword.name + " twice"};
      keyword.value = expression();
      made.named.push_back(std::move(keyword));
    } else {
      if (!made.named.empty()) tokens_.refuse_token("an argument with a name, as those before it");
      made.positional.push_back(expression());
    }
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol(")");
  return made;
}

}  // namespace binade::data::jinja
