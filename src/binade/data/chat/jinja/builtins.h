#pragma once

#include <ctime>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/data/chat/jinja/value.h"

// What templates may call: filters, tests, methods of values and global functions.
namespace binade::data::jinja {

inline constexpr int64_t max_steps = 10'000'000;  // of one rendering
inline constexpr int64_t max_range = 100'000;     // as jinja2's sandbox

// The work of one rendering, which is limited.
class Work {
 public:
  explicit Work(const std::tm& now) : now_(now) {}

  // Fails beyond max_steps.
  void spend(int64_t steps);
  // For looking at the characters of a text one by one.
  void read_characters(const Value& text) { spend(8 * text.weight()); }
  // For looking up a key or a name among `count`.
  void look_among(size_t count) { spend(static_cast<int64_t>(count / 16)); }
  // For looking for a part in a text.
  void search(std::string_view text, std::string_view part);
  // items_of(), which are spent.
  std::vector<Value> items(const Value& value);
  // Before a text or a list of this size is made. Fails beyond max_text.
  void make_text(double bytes);
  void make_list(double items);

  const std::tm& now() const { return now_; }
  Value make_namespace(std::vector<std::pair<std::string, Value>> items);
  // Namespaces may hold one another; this takes them apart.
  void clear();

 private:
  int64_t steps_ = 0;
  std::tm now_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

struct CallArguments {
  std::vector<Value> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

// The arguments in the order of a function's parameters, null where one is not given. Fails if one
// is unknown, or one of the first `required` is missing.
std::vector<const Value*> bind(std::string_view function, const CallArguments& arguments,
                               std::initializer_list<std::string_view> names, size_t required = 0);

using Filter = Value (*)(Work&, const Value&, const CallArguments&);
using Test = bool (*)(Work&, const Value&, const CallArguments&);

// These fail for an unknown name.
Filter filter_of(std::string_view name);
Test test_of(std::string_view name);
bool is_filter(std::string_view name);
bool is_test(std::string_view name);

// value.name and value[key]: undefined if there is no such thing. Fail if the value is undefined.
Value attribute_of(const Value& value, const std::string& name);
Value item_of(const Value& value, const Value& key);
// value[begin:end:step], null for what is not given.
Value slice_of(Work& work, const Value& value, const Value* begin, const Value* end,
               const Value* step);

// Calls a method of a text or a dict, or one of a loop.
Value call_method(Work& work, const Value& self, const std::string& name,
                  const CallArguments& arguments);
bool is_method(const Value& self, std::string_view name);
Value call_global(Work& work, Global function, const CallArguments& arguments);

// Python's operators.
Value add(Work& work, const Value& a, const Value& b);
Value subtract(const Value& a, const Value& b);
Value multiply(Work& work, const Value& a, const Value& b);
Value divide(const Value& a, const Value& b);
Value floor_divide(const Value& a, const Value& b);
Value modulo(const Value& a, const Value& b);
Value power(const Value& a, const Value& b);
Value negative(const Value& a);

// An argument as text, whole number or truth; fails for others.
const std::string& text_argument(const Value& value, std::string_view function);
int64_t whole_argument(const Value& value, std::string_view function);

}  // namespace binade::data::jinja
