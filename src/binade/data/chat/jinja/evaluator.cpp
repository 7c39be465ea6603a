#include "binade/data/chat/jinja/evaluator.h"

#include <algorithm>

#include "binade/base/json.h"

namespace binade::data::jinja {

Evaluator::Evaluator(const Parsed& parsed, const std::tm& now)
    : parsed_(parsed),
      work_(now),
      scope_(&scopes_.emplace_back()),
      loop_variable_(parsed.names.find("loop")),
      captured_variable_(parsed.names.find(captured_text)) {
  static const std::pair<const char*, Global> globals[] = {
      {"raise_exception", Global::raise_exception},
      {"strftime_now", Global::strftime_now},
      {"namespace", Global::name_space},
      {"range", Global::range},
      {"dict", Global::dict}};
  for (const auto& [name, function] : globals) set_variable(name, Value(function));
}

Evaluator::~Evaluator() { work_.clear(); }

void Evaluator::set_variable(const std::string& name, Value value) {
  if (const int variable = parsed_.names.find(name); variable >= 0) set(variable, std::move(value));
}

void Evaluator::set(int variable, Value value) {
  work_.look_among(scope_->items.size());
  for (auto& [id, old] : scope_->items) {
    if (id == variable) {
      old = std::move(value);
      return;
    }
  }
  scope_->items.emplace_back(variable, std::move(value));
}

const Value* Evaluator::find_variable(int variable) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    work_.look_among(scope->items.size());
    for (const auto& [id, value] : scope->items) {
      if (id == variable) return &value;
    }
  }
  return nullptr;
}

std::vector<Value> Evaluator::eval_all(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& one : expressions) values.push_back(eval(*one));
  return values;
}

CallArguments Evaluator::eval_arguments(const Arguments& arguments) {
  CallArguments values{eval_all(arguments.positional)};
  for (const auto& [name, value] : arguments.named) values.named.emplace_back(name, eval(*value));
  return values;
}

Value Evaluator::eval(const Expression& expression) {
  const Depth depth(*this);
  work_.spend(1);
  line_ = expression.line;
  const auto item = [&](size_t index) { return eval(*expression.items[index]); };
  switch (expression.kind) {
    case ExpressionKind::constant:
      return expression.constant;
    case ExpressionKind::name: {
      const Value* value = find_variable(expression.variable);
      if (value != nullptr) return *value;
      return Value(Undefined{std::make_shared<const std::string>(expression.text)});
    }
    case ExpressionKind::list:
      return Value::list(eval_all(expression.items));
    case ExpressionKind::tuple:
      return Value::list(eval_all(expression.items), ListForm::tuple);
    case ExpressionKind::dict:
      return eval_dict(expression);
    case ExpressionKind::attribute: {
      const Value value = item(0);
      if (value.dict()) work_.look_among(value.dict()->items.size());
      return attribute_of(value, expression.text);
    }
    case ExpressionKind::subscript: {
      const Value value = item(0), key = item(1);
      work_.spend(value.text() ? value.weight() : 1);
      if (value.dict()) work_.look_among(value.dict()->items.size());
      return item_of(value, key);
    }
    case ExpressionKind::slice:
      return eval_slice(expression);
    case ExpressionKind::call:
      return eval_call(expression);
    case ExpressionKind::filter: {
      const Value value = item(0);
      const CallArguments arguments = eval_arguments(expression.arguments);
      work_.spend(value.text() ? value.weight() : 1);
      line_ = expression.line;
      return filter_of(expression.text)(work_, value, arguments);
    }
    case ExpressionKind::test: {
      const Value value = item(0);
      const CallArguments arguments = eval_arguments(expression.arguments);
      for (const Value& argument : arguments.positional) work_.spend(argument.weight());
      return Value(test_of(expression.text)(work_, value, arguments));
    }
    case ExpressionKind::negate:
      return Value(!item(0).is_true());
    case ExpressionKind::both:
    case ExpressionKind::either:
      for (size_t i = 0;; ++i) {
        Value value = item(i);
        const bool decides = value.is_true() == (expression.kind == ExpressionKind::either);
        if (decides || i + 1 == expression.items.size()) return value;
      }
    case ExpressionKind::conditional:
      if (item(0).is_true()) return item(1);
      return expression.items.size() > 2 ? item(2) : Value(Undefined{});
    case ExpressionKind::compare:
      return eval_compare(expression);
    case ExpressionKind::concat:
      return eval_concat(expression);
    default:
      return eval_operator(expression);
  }
}

Value Evaluator::eval_dict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i < expression.items.size(); i += 2) {
    Value key = eval(*expression.items[i]);
    work_.spend(static_cast<int64_t>(items.size()));
    put(items, std::move(key), eval(*expression.items[i + 1]));
  }
  return Value::dict(std::move(items));
}

Value Evaluator::eval_slice(const Expression& expression) {
  const Value value = eval(*expression.items[0]);
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (!expression.items[i + 1]) continue;
    bounds[i] = eval(*expression.items[i + 1]);
    given[i] = &bounds[i];
  }
  work_.spend(value.text() ? value.weight() : 1);
  return slice_of(work_, value, given[0], given[1], given[2]);
}

Value Evaluator::eval_call(const Expression& expression) {
  const Expression& callee = *expression.items[0];
  if (callee.kind != ExpressionKind::attribute) {
    const Value function = eval(callee);
    const CallArguments arguments = eval_arguments(expression.arguments);
    line_ = expression.line;
    return call(function, arguments);
  }
  // A method, without a value for it.
  const Value self = eval(*callee.items[0]);
  const bool is_own = is_method(self, callee.text);
  const Value function = is_own ? Value() : attribute_of(self, callee.text);
  const CallArguments arguments = eval_arguments(expression.arguments);
  line_ = expression.line;
  if (is_own) return call_method(work_, self, callee.text, arguments);
  if (function.is_undefined())
    refuse("a method that Binade knows", callee.text + "() of " + described(self));
  return call(function, arguments);
}

Value Evaluator::call(const Value& function, const CallArguments& arguments) {
  if (const auto* macro = std::get_if<const Macro*>(&function.data()))
    return call_macro(**macro, arguments);
  if (const auto* method = std::get_if<std::shared_ptr<const Method>>(&function.data()))
    return call_method(work_, (*method)->self, (*method)->name, arguments);
  if (const auto* global = std::get_if<Global>(&function.data()))
    return call_global(work_, *global, arguments);
  refuse("a function", described(function));
}

Value Evaluator::call_macro(const Macro& macro, const CallArguments& arguments) {
  work_.look_among(macros_.size());
  const auto defined = std::find_if(macros_.begin(), macros_.end(),
                                    [&](const auto& one) { return one.first == &macro; });
  if (calls_ == max_calls)
    refuse("macros that call one another at most " + std::to_string(max_calls) + " deep", "more");
  const std::string name = "the macro " + macro.name;
  if (arguments.positional.size() > macro.parameters.size())
    refuse("at most " + std::to_string(macro.parameters.size()) + " arguments of " + name,
           std::to_string(arguments.positional.size()));
  for (const auto& argument : arguments.named) {
    const std::string& given = argument.first;
    const auto known =
        std::find_if(macro.parameters.begin(), macro.parameters.end(),
                     [&](const Parameter& one) { return one.variable.name == given; });
    if (known == macro.parameters.end()) refuse("an argument of " + name, json::in_quotes(given));
    if (std::cmp_less(known - macro.parameters.begin(), arguments.positional.size()))
      refuse("each argument of " + name + " once", json::in_quotes(given) + " twice");
  }
  const InnerScope scope(*this, defined->second);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Variable& variable = macro.parameters[i].variable;
    const ExpressionPtr& otherwise = macro.parameters[i].otherwise;
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& one) { return one.first == variable.name; });
    if (i < arguments.positional.size()) {
      set(variable.id, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      set(variable.id, named->second);
    } else {
      set(variable.id, otherwise
                           ? eval(*otherwise)
                           : Value(Undefined{std::make_shared<const std::string>(variable.name)}));
    }
  }
  Capture captured(*this);
  ++calls_;
  run(*macro.body);
  --calls_;
  return Value(std::move(captured.text));
}

Value Evaluator::eval_compare(const Expression& expression) {
  Value left = eval(*expression.items[0]);
  for (size_t i = 0; i < expression.comparisons.size(); ++i) {
    Value right = eval(*expression.items[i + 1]);
    work_.spend(left.is_number() ? right.weight() : left.weight() + right.weight());
    const auto holds = [&] {
      switch (expression.comparisons[i]) {
        case Comparison::eq:
          return equal(left, right);
        case Comparison::ne:
          return !equal(left, right);
        case Comparison::lt:
          return compare(left, right) < 0;
        case Comparison::le:
          return compare(left, right) <= 0;
        case Comparison::gt:
          return compare(left, right) > 0;
        case Comparison::ge:
          return compare(left, right) >= 0;
        case Comparison::in:
          if (left.text() && right.text()) work_.search(*right.text(), *left.text());
          return contains(right, left);
        case Comparison::not_in:
          if (left.text() && right.text()) work_.search(*right.text(), *left.text());
          return !contains(right, left);
      }
      return false;
    };
    line_ = expression.line;
    if (!holds()) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::eval_concat(const Expression& expression) {
  std::string text;
  for (const ExpressionPtr& one : expression.items) {
    const Value value = eval(*one);
    work_.spend(value.weight());
    text += str(value);
    work_.make_text(static_cast<double>(text.size()));
  }
  return Value(std::move(text));
}

Value Evaluator::eval_operator(const Expression& expression) {
  const Value a = eval(*expression.items[0]);
  const Value b = expression.items.size() > 1 ? eval(*expression.items[1]) : Value();
  line_ = expression.line;
  switch (expression.kind) {
    case ExpressionKind::minus:
      return negative(a);
    case ExpressionKind::plus:
      if (!a.is_number()) refuse("a number", described(a));
      return a.is_whole() ? Value(a.whole()) : a;
    case ExpressionKind::add:
      return add(work_, a, b);
    case ExpressionKind::subtract:
      return subtract(a, b);
    case ExpressionKind::multiply:
      return multiply(work_, a, b);
    case ExpressionKind::divide:
      return divide(a, b);
    case ExpressionKind::floor_divide:
      return floor_divide(a, b);
    case ExpressionKind::modulo:
      return modulo(a, b);
    default:
      return power(a, b);
  }
}

}  // namespace binade::data::jinja
