#include "binade/data/chat/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "binade/base/json.h"

namespace binade::data::jinja {
namespace {

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Parsed run() {
    parsed_.body = block({});
    return std::move(parsed_);
  }

 private:
  // Statements up to a tag with one of these names, whose name is the next token; without names up
  // to the end.
  Block block(std::initializer_list<std::string_view> ends) {
    if (++nesting_ > max_nesting)
      throw LocatedRefusal{tokens_.peek().line,
                           "at most " + std::to_string(max_nesting) + " tags in one another",
                           "more"};
    Block body;
    for (;;) {
      const Token token = tokens_.take();
      if (token.kind == TokenKind::data) {
        Statement statement = start(StatementKind::text);
        statement.text = token.text;
        body.push_back(std::move(statement));
      } else if (token.kind == TokenKind::variable_begin) {
        Statement statement = start(StatementKind::output);
        statement.expression = expressions_.tuple();
        end_tag(TokenKind::variable_end, "'}}'");
        body.push_back(std::move(statement));
      } else if (token.kind == TokenKind::end) {
        if (ends.size() > 0) tokens_.refuse_token(tag_names(ends));
        break;
      } else {
        const bool is_end = std::any_of(ends.begin(), ends.end(),
                                        [&](std::string_view end) { return tokens_.is_name(end); });
        if (is_end) break;
        body.push_back(statement(ends));
      }
    }
    --nesting_;
    return body;
  }

  static std::string tag_names(std::initializer_list<std::string_view> ends) {
    std::string names;
    for (const std::string_view end : ends)
      names += (names.empty() ? "" : " or ") + ("'{% " + std::string(end) + " %}'");
    return names;
  }

  Statement start(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = tokens_.peek().line;
    return statement;
  }

  void end_tag(TokenKind kind, const char* expected) {
    if (tokens_.peek().kind != kind) tokens_.refuse_token(expected);
    tokens_.take();
  }
  void end_tag() { end_tag(TokenKind::block_end, "'%}'"); }

  Statement statement(std::initializer_list<std::string_view> ends) {
    if (tokens_.is_name("if")) return choice();
    if (tokens_.is_name("for")) return loop();
    if (tokens_.is_name("set")) return assignment();
    if (tokens_.is_name("macro")) return macro();
    if (tokens_.is_name("generation")) return generation();
    if (tokens_.is_name("break")) return jump(StatementKind::leave);
    if (tokens_.is_name("continue")) return jump(StatementKind::skip);
    if (ends.size() > 0)
      tokens_.refuse_token("a tag: if, for, set, macro, generation, break, continue, or " +
                           tag_names(ends));
    tokens_.refuse_token("a tag: if, for, set, macro, generation, break or continue");
  }

  Statement choice() {
    Statement made = start(StatementKind::choice);
    tokens_.take();
    made.expression = expressions_.tuple(false);
    end_tag();
    made.body = block({"elif", "else", "endif"});
    if (tokens_.is_name("elif")) {
      if (++nesting_ > max_branches) tokens_.refuse_token("fewer branches");
      made.otherwise.push_back(choice());  // it takes the endif
      --nesting_;
      return made;
    }
    if (tokens_.skip_name("else")) {
      end_tag();
      made.otherwise = block({"endif"});
    }
    tokens_.expect_name("endif");
    end_tag();
    return made;
  }

  Variable variable() {
    const Token& token = tokens_.peek();
    static constexpr std::string_view constants[] = {"true", "false", "none",
                                                     "True", "False", "None"};
    if (token.kind != TokenKind::name ||
        std::find(std::begin(constants), std::end(constants), token.text) != std::end(constants))
      tokens_.refuse_token("the name of a variable");
    std::string name = tokens_.take().text;
    const int id = parsed_.names.id_of(name);
    return {id, std::move(name)};
  }

  // Names, perhaps in brackets; `with_attributes` also the attribute of a namespace.
  Target target(bool with_attributes) {
    Target made;
    const bool brackets = tokens_.skip_symbol("(");
    made.variables.push_back(variable());
    if (with_attributes && !brackets && tokens_.skip_symbol(".")) {
      made.attribute = tokens_.take_name();
      return made;
    }
    while (tokens_.skip_symbol(",")) {
      made.unpacks = true;
      if (tokens_.is_name("in") || tokens_.is_symbol("=") || tokens_.is_symbol(")")) break;
      made.variables.push_back(variable());
    }
    if (brackets) tokens_.expect_symbol(")");
    return made;
  }

  Statement loop() {
    Statement made = start(StatementKind::loop);
    tokens_.take();
    made.target = target(false);
    tokens_.expect_name("in");
    made.expression = expressions_.tuple(false, "recursive");
    if (tokens_.skip_name("if")) made.condition = expressions_.expression();
    if (tokens_.is_name("recursive")) tokens_.refuse_token("a loop that is not recursive");
    end_tag();
    ++loops_;
    made.body = block({"else", "endfor"});
    --loops_;
    if (tokens_.skip_name("else")) {
      end_tag();
      made.otherwise = block({"endfor"});
    }
    tokens_.expect_name("endfor");
    end_tag();
    return made;
  }

  Statement assignment() {
    Statement made = start(StatementKind::assign);
    tokens_.take();
    made.target = target(true);
    if (tokens_.skip_symbol("=")) {
      made.expression = expressions_.tuple();
      end_tag();
      return made;
    }
    made.kind = StatementKind::capture;
    if (tokens_.is_symbol("|")) {
      auto captured = std::make_unique<Expression>();
      captured->kind = ExpressionKind::name;
      captured->line = made.line;
      captured->text = captured_text;
      captured->variable = parsed_.names.id_of(captured->text);
      made.expression = expressions_.filters_of(std::move(captured));
    }
    end_tag();
    made.body = block({"endset"});
    tokens_.take();
    end_tag();
    return made;
  }

  Statement macro() {
    Statement made = start(StatementKind::define);
    tokens_.take();
    auto macro = std::make_shared<Macro>();
    made.target.variables.push_back(variable());
    macro->name = made.target.variables[0].name;
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      if (macro->parameters.size() == max_arguments)
        tokens_.refuse_token("at most " + std::to_string(max_arguments) + " parameters");
      Parameter parameter{variable(), nullptr};
      if (tokens_.skip_symbol("=")) {
        parameter.otherwise = expressions_.expression();
      } else if (!macro->parameters.empty() && macro->parameters.back().otherwise) {
        tokens_.refuse_token("a default, as the parameter before it has one");
      }
      macro->parameters.push_back(std::move(parameter));
      if (!tokens_.skip_symbol(",")) break;
    }
    tokens_.expect_symbol(")");
    end_tag();
    const int loops = std::exchange(loops_, 0);
    macro->body = std::make_shared<const Block>(block({"endmacro"}));
    loops_ = loops;
    tokens_.take();
    end_tag();
    made.macro = std::move(macro);
    return made;
  }

  Statement generation() {
    Statement made = start(StatementKind::generation);
    tokens_.take();
    end_tag();
    const int loops = std::exchange(loops_, 0);
    made.body = block({"endgeneration"});
    loops_ = loops;
    tokens_.take();
    end_tag();
    parsed_.has_generation = true;
    return made;
  }

  Statement jump(StatementKind kind) {
    if (loops_ == 0) tokens_.refuse_token("a loop around it");
    Statement made = start(kind);
    tokens_.take();
    end_tag();
    return made;
  }

  static constexpr int max_branches = 4 * max_nesting;

  TokenStream tokens_;
  Parsed parsed_;
  ExpressionParser expressions_{tokens_, parsed_.names};
  int nesting_ = 0, loops_ = 0;
};

}  // namespace

Parsed parse_template(std::string_view source) { return TemplateParser(tokens_of(source)).run(); }

}  // namespace binade::data::jinja
