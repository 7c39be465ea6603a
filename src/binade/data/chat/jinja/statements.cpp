#include <algorithm>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/evaluator.h"

namespace binade::data::jinja {

InnerScope::InnerScope(Evaluator& run, const Scope* outer) : run_(run), before_(run.scope_) {
  if (run.free_.empty()) {
    run.scope_ = &run.scopes_.emplace_back();
  } else {
    run.scope_ = run.free_.back();
    run.free_.pop_back();
  }
  run.scope_->outer = outer;
}

InnerScope::~InnerScope() {
  if (!run_.scope_->is_kept) {
    run_.scope_->items.clear();
    run_.free_.push_back(run_.scope_);
  }
  run_.scope_ = before_;
}

void Evaluator::run() { run(parsed_.body); }

void Evaluator::write(std::string_view text) {
  work_.make_text(static_cast<double>(text.size()));
  *out_ += text;
  if (std::cmp_greater(out_->size(), max_text)) work_.make_text(static_cast<double>(out_->size()));
}

Evaluator::Flow Evaluator::run(const Block& block) {
  const Depth depth(*this);
  for (const Statement& statement : block) {
    if (const Flow flow = run(statement); flow != Flow::on) return flow;
  }
  return Flow::on;
}

Evaluator::Flow Evaluator::run(const Statement& statement) {
  work_.spend(1);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::text:
      write(statement.text);
      break;
    case StatementKind::output: {
      const Value value = eval(*statement.expression);
      line_ = statement.line;
      work_.spend(value.weight());
      if (const std::string* text = value.text()) {
        write(*text);
      } else {
        write(str(value));
      }
      break;
    }
    case StatementKind::choice:
      return run(eval(*statement.expression).is_true() ? statement.body : statement.otherwise);
    case StatementKind::loop:
      return loop(statement);
    case StatementKind::assign:
      assign(statement.target, eval(*statement.expression));
      break;
    case StatementKind::capture:
      capture(statement);
      break;
    case StatementKind::define: {
      const Macro* macro = statement.macro.get();
      std::erase_if(macros_, [&](const auto& one) { return one.first == macro; });
      macros_.emplace_back(macro, scope_);
      scope_->is_kept = true;
      set(statement.target.variables[0].id, Value(macro));
      break;
    }
    case StatementKind::generation:
      generation(statement);
      break;
    case StatementKind::skip:
      return Flow::skip;
    case StatementKind::leave:
      return Flow::leave;
  }
  return Flow::on;
}

// The items that a loop's condition keeps.
std::vector<Value> Evaluator::filtered(const Statement& statement, std::vector<Value> items) {
  if (!statement.condition) return items;
  const InnerScope scope(*this, scope_);
  std::erase_if(items, [&](const Value& item) {
    assign(statement.target, item);
    return !eval(*statement.condition).is_true();
  });
  return items;
}

Evaluator::Flow Evaluator::loop(const Statement& statement) {
  const Value values = eval(*statement.expression);
  line_ = statement.line;
  const std::vector<Value> items = filtered(statement, work_.items(values));
  if (items.empty()) {
    const InnerScope scope(*this, scope_);
    return run(statement.otherwise);
  }
  return loop_over(statement, items);
}

Evaluator::Flow Evaluator::loop_over(const Statement& statement, const std::vector<Value>& items) {
  const InnerScope scope(*this, scope_);
  const auto state = std::make_shared<Loop>(Loop{&items, 0});
  for (size_t i = 0; i < items.size(); ++i) {
    work_.spend(1);
    scope_->items.clear();
    state->index = static_cast<int64_t>(i);
    if (loop_variable_ >= 0) set(loop_variable_, Value(state));
    assign(statement.target, items[i]);
    if (run(statement.body) == Flow::leave) break;
  }
  static const std::vector<Value> none;
  state->items = &none;  // for those who kept the loop
  return Flow::on;
}

void Evaluator::generation(const Statement& statement) {
  const InnerScope scope(*this, scope_);
  if (out_ != &text_)
    refuse("{% generation %} outside of macros and {% set %} blocks", "one inside");
  const size_t begin = text_.size();
  run(statement.body);
  generated_.emplace_back(begin, text_.size());
}

void Evaluator::capture(const Statement& statement) {
  Value value;
  {
    const InnerScope scope(*this, scope_);
    Capture captured(*this);
    run(statement.body);
    value = Value(std::move(captured.text));
    if (statement.expression) {
      set(captured_variable_, value);
      value = eval(*statement.expression);
    }
  }
  assign(statement.target, value);
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value* found = find_variable(target.variables[0].id);
    Namespace* names = found != nullptr ? found->names() : nullptr;
    if (names == nullptr)
      refuse("a namespace to set an attribute of", json::in_quotes(target.variables[0].name));
    if (target.attribute.starts_with('_'))
      refuse("names of a namespace without a leading _", target.attribute);
    for (auto& [name, old] : names->items) {
      if (name == target.attribute) {
        old = value;
        return;
      }
    }
    names->items.emplace_back(target.attribute, value);
    return;
  }
  if (!target.unpacks) return set(target.variables[0].id, value);
  const std::vector<Value> items = work_.items(value);
  if (items.size() != target.variables.size())
    refuse(std::to_string(target.variables.size()) + " values to unpack",
           std::to_string(items.size()));
  for (size_t i = 0; i < items.size(); ++i) set(target.variables[i].id, items[i]);
}

}  // namespace binade::data::jinja
