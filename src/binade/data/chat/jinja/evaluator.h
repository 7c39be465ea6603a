#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/data/chat/jinja/builtins.h"
#include "binade/data/chat/jinja/parser.h"

namespace binade::data::jinja {

inline constexpr int max_calls = 60;     // of macros in one another
inline constexpr int max_depth = 1'000;  // of expressions and tags that are being run

// Variables by their numbers, and those around them.
struct Scope {
  std::vector<std::pair<int, Value>> items = {};
  const Scope* outer = nullptr;
  bool is_kept = false;  // a macro was defined in it
};

// One rendering of a template.
class Evaluator {
 public:
  Evaluator(const Parsed& parsed, const std::tm& now);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  void set_variable(const std::string& name, Value value);
  // Throws a Refusal; line() is then where it came from.
  void run();

  int line() const { return line_; }
  std::string take_text() { return std::move(text_); }
  // The bytes that generation blocks wrote.
  std::vector<std::pair<size_t, size_t>> take_generated() { return std::move(generated_); }

 private:
  friend class Depth;
  friend class InnerScope;
  friend class Capture;
  enum class Flow : uint8_t { on, skip, leave };

  // Statements (statements.cpp).
  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow loop(const Statement& statement);
  Flow loop_over(const Statement& statement, const std::vector<Value>& items);
  std::vector<Value> filtered(const Statement& statement, std::vector<Value> items);
  void generation(const Statement& statement);
  void capture(const Statement& statement);
  void write(std::string_view text);
  void assign(const Target& target, const Value& value);
  void set(int variable, Value value);
  const Value* find_variable(int variable);

  // Expressions (evaluator.cpp).
  Value eval(const Expression& expression);
  Value eval_dict(const Expression& expression);
  Value eval_call(const Expression& expression);
  Value eval_compare(const Expression& expression);
  Value eval_concat(const Expression& expression);
  Value eval_operator(const Expression& expression);
  Value eval_slice(const Expression& expression);
  std::vector<Value> eval_all(const std::vector<ExpressionPtr>& expressions);
  CallArguments eval_arguments(const Arguments& arguments);
  Value call(const Value& function, const CallArguments& arguments);
  Value call_macro(const Macro& macro, const CallArguments& arguments);

  const Parsed& parsed_;
  Work work_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_;  // that may be used again
  Scope* scope_;
  std::vector<std::pair<const Macro*, const Scope*>> macros_;  // where each was defined last
  std::string text_;
  std::string* out_ = &text_;
  std::vector<std::pair<size_t, size_t>> generated_;
  int line_ = 1, depth_ = 0, calls_ = 0;
  const int loop_variable_, captured_variable_;
};

// For its lifetime, evaluation is one level deeper.
class Depth {
 public:
  explicit Depth(Evaluator& run) : run_(run) {
    if (++run_.depth_ > max_depth) {
      --run_.depth_;
      refuse("at most " + std::to_string(max_depth) + " levels", "more");
    }
  }
  ~Depth() { --run_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Evaluator& run_;
};

// For its lifetime, variables are set in a new scope inside another.
class InnerScope {
 public:
  InnerScope(Evaluator& run, const Scope* outer);
  ~InnerScope();
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

 private:
  Evaluator& run_;
  Scope* before_;
};

// For its lifetime, text is written to `text` instead.
class Capture {
 public:
  explicit Capture(Evaluator& run) : run_(run), before_(std::exchange(run.out_, &text)) {}
  ~Capture() { run_.out_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::string text;

 private:
  Evaluator& run_;
  std::string* before_;
};

}  // namespace binade::data::jinja
