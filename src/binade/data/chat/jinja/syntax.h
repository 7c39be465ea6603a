#pragma once

#include <memory>
#include <string>
#include <vector>

#include "binade/data/chat/jinja/value.h"

// A template as it was parsed. Names are numbers, so that variables are found without comparing
// texts.
namespace binade::data::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Block = std::vector<Statement>;

struct Keyword {
  std::string name;
  ExpressionPtr value;
};

struct Arguments {
  std::vector<ExpressionPtr> positional = {};
  std::vector<Keyword> named = {};
};

enum class ExpressionKind : uint8_t {
  constant,
  name,
  list,
  tuple,
  dict,         // keys and values in turn
  attribute,    // items[0].text
  subscript,    // items[0][items[1]]
  slice,        // items[0][items[1]:items[2]:items[3]], null where nothing stands
  call,         // items[0](arguments)
  filter,       // items[0]|text(arguments)
  test,         // items[0] is text(arguments)
  negate,       // not items[0]
  minus,        // -items[0]
  plus,         // +items[0]
  both,         // and
  either,       // or
  conditional,  // items[1] if items[0] else items[2]
  compare,      // items[0] operators[0] items[1] operators[1] items[2] ...
  concat,       // ~
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
};

enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  int line = 0, depth = 1;
  int variable = -1;  // of a name
  Value constant = {};
  std::string text = {};  // the name of a variable, attribute, filter or test
  std::vector<ExpressionPtr> items = {};
  std::vector<Comparison> comparisons = {};
  Arguments arguments = {};
};

struct Variable {
  int id;
  std::string name;
};

// What is assigned to: a variable, a namespace's attribute, or several variables.
struct Target {
  std::vector<Variable> variables = {};
  bool unpacks = false;
  std::string attribute = {};  // of the namespace variables[0]; empty: none
};

struct Parameter {
  Variable variable;
  ExpressionPtr otherwise;  // null: none
};

struct Macro {
  std::string name;
  std::vector<Parameter> parameters = {};
  std::shared_ptr<const Block> body = {};
};

enum class StatementKind : uint8_t {
  text,        // text
  output,      // expression
  choice,      // if expression: body else: otherwise
  loop,        // for target in expression if condition: body else: otherwise
  assign,      // target = expression
  capture,     // target = what body writes, through the filters of expression
  define,      // macro
  generation,  // body, which an assistant wrote
  skip,        // continue
  leave,       // break
};

struct Statement {
  StatementKind kind = StatementKind::text;
  int line = 0;
  std::string text = {};
  ExpressionPtr expression = {}, condition = {};
  Target target = {};
  Block body = {}, otherwise = {};
  std::shared_ptr<const Macro> macro = {};
};

}  // namespace binade::data::jinja
