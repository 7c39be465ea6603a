#include <algorithm>
#include <array>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/builtins.h"
#include "binade/data/chat/jinja/python_text.h"

// What may stand behind `is`.
namespace binade::data::jinja {
namespace {

const Value& other_of(const CallArguments& arguments) {
  return *bind("a test", arguments, {"other"}, 1)[0];
}

bool is_same_number(const Value& value, int64_t divisor, int64_t rest) {
  if (divisor == 0) refuse("a divisor", "zero");
  return equal(modulo(value, Value(divisor)), Value(rest));
}

bool is_sequence(const Value& value) {
  const List* list = value.list();
  const bool has_items = list && list->form != ListForm::view && list->form != ListForm::generator;
  return value.is_undefined() || value.text() || value.dict() || has_items;
}

bool is_function(const Value& value) {
  return value.is_undefined() || std::holds_alternative<const Macro*>(value.data()) ||
         std::holds_alternative<std::shared_ptr<const Method>>(value.data()) ||
         std::holds_alternative<Global>(value.data());
}

bool is_identical(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (a.list()) return a.list() == b.list();
  if (a.dict()) return a.dict() == b.dict();
  return equal(a, b);
}

bool in_case(Work& work, const Value& value, Property wanted, Property other) {
  work.read_characters(value);
  const std::string text = str(value);
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    if (has_property(one.code, other)) return false;
    found |= has_property(one.code, wanted);
    at += one.bytes;
  }
  return found;
}

bool is_in(Work& work, const Value& value, const Value& values) {
  if (value.text() && values.text()) work.search(*values.text(), *value.text());
  return contains(values, value);
}

struct NamedTest {
  std::string_view name;
  Test call;
};
using Args = const CallArguments&;
constexpr std::array named_tests = std::to_array<NamedTest>({
    {"defined", [](Work&, const Value& v, Args) { return !v.is_undefined(); }},
    {"undefined", [](Work&, const Value& v, Args) { return v.is_undefined(); }},
    {"none", [](Work&, const Value& v, Args) { return v.is_none(); }},
    {"boolean", [](Work&, const Value& v, Args) { return v.boolean() != nullptr; }},
    {"true", [](Work&, const Value& v, Args) { return v.boolean() && *v.boolean(); }},
    {"false", [](Work&, const Value& v, Args) { return v.boolean() && !*v.boolean(); }},
    {"integer", [](Work&, const Value& v, Args) { return v.integer() != nullptr; }},
    {"float", [](Work&, const Value& v, Args) { return v.real() != nullptr; }},
    {"number", [](Work&, const Value& v, Args) { return v.is_number(); }},
    {"string", [](Work&, const Value& v, Args) { return v.is_text(); }},
    {"escaped", [](Work&, const Value& v, Args) { return v.is_markup(); }},
    {"mapping", [](Work&, const Value& v, Args) { return v.dict() != nullptr; }},
    {"sequence", [](Work&, const Value& v, Args) { return is_sequence(v); }},
    {"iterable",
     [](Work&, const Value& v, Args) { return is_sequence(v) || v.list() || v.loop(); }},
    {"callable", [](Work&, const Value& v, Args) { return is_function(v); }},
    {"sameas", [](Work&, const Value& v, Args a) { return is_identical(v, other_of(a)); }},
    {"odd", [](Work&, const Value& v, Args) { return is_same_number(v, 2, 1); }},
    {"even", [](Work&, const Value& v, Args) { return is_same_number(v, 2, 0); }},
    {"divisibleby",
     [](Work&, const Value& v,
        Args a) { return is_same_number(v, whole_argument(other_of(a), "divisibleby"), 0); }},
    {"lower", [](Work& work, const Value& v,
                 Args) { return in_case(work, v, Property::cased_lower, Property::cased_upper); }},
    {"upper", [](Work& work, const Value& v,
                 Args) { return in_case(work, v, Property::cased_upper, Property::cased_lower); }},
    {"in", [](Work& work, const Value& v, Args a) { return is_in(work, v, other_of(a)); }},
    {"eq", [](Work&, const Value& v, Args a) { return equal(v, other_of(a)); }},
    {"equalto", [](Work&, const Value& v, Args a) { return equal(v, other_of(a)); }},
    {"==", [](Work&, const Value& v, Args a) { return equal(v, other_of(a)); }},
    {"ne", [](Work&, const Value& v, Args a) { return !equal(v, other_of(a)); }},
    {"!=", [](Work&, const Value& v, Args a) { return !equal(v, other_of(a)); }},
    {"lt", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) < 0; }},
    {"lessthan", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) < 0; }},
    {"<", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) < 0; }},
    {"le", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) <= 0; }},
    {"<=", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) <= 0; }},
    {"gt", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) > 0; }},
    {"greaterthan", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) > 0; }},
    {">", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) > 0; }},
    {"ge", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) >= 0; }},
    {">=", [](Work&, const Value& v, Args a) { return compare(v, other_of(a)) >= 0; }},
    {"filter", [](Work&, const Value& v, Args) { return v.text() && is_filter(*v.text()); }},
    {"test", [](Work&, const Value& v, Args) { return v.text() && is_test(*v.text()); }},
});

const NamedTest* find_test(std::string_view name) {
  const auto found = std::find_if(named_tests.begin(), named_tests.end(),
                                  [&](const NamedTest& one) { return one.name == name; });
  return found == named_tests.end() ? nullptr : &*found;
}

}  // namespace

bool is_test(std::string_view name) { return find_test(name) != nullptr; }

Test test_of(std::string_view name) {
  const NamedTest* test = find_test(name);
  if (test == nullptr)
    refuse("a test that Binade knows, such as defined or string", json::in_quotes(name));
  return test->call;
}

}  // namespace binade::data::jinja
