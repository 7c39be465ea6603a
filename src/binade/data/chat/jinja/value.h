#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// The values of templates: those of Python that JSON can say, and what the language itself makes.
// None of them can be changed but namespaces.
namespace binade::data::jinja {

class Value;
struct Dict;
struct List;
struct Macro;
struct Namespace;

using Text = std::shared_ptr<const std::string>;

// A name, attribute or item that is not there. It is false, empty and written as nothing; most
// other uses are errors.
struct Undefined {
  Text name = {};  // for messages
};

// What a list was made as: they differ in what may be done with them.
enum class ListForm : uint8_t {
  list,
  tuple,
  range,
  view,       // items(), keys() and values(): no subscripts
  generator,  // of filters such as select: true even if empty, no length, gone after one loop
};

// The variable `loop`.
struct Loop {
  const std::vector<Value>* items = nullptr;
  int64_t index = 0;
};

// A method that is not called yet.
struct Method;

enum class Global : uint8_t { raise_exception, strftime_now, name_space, range, dict };

class Value {
 public:
  using Data = std::variant<Undefined, std::nullptr_t, bool, int64_t, double, Text,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Namespace>, std::shared_ptr<Loop>, const Macro*,
                            std::shared_ptr<const Method>, Global>;

  Value() = default;
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Text text) : data_(std::move(text)) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(std::shared_ptr<Namespace> names) : data_(std::move(names)) {}
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}
  Value(std::shared_ptr<const Method> method) : data_(std::move(method)) {}
  Value(const Macro* macro) : data_(macro) {}
  Value(Global global) : data_(global) {}
  // These fail beyond max_value_depth and max_weight.
  static Value list(std::vector<Value> items, ListForm form = ListForm::list);
  static Value dict(std::vector<std::pair<Value, Value>> items);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  bool is_text() const { return std::holds_alternative<Text>(data_); }
  // A text of the filter safe: what is added to it by + is escaped for HTML.
  bool is_markup() const { return is_markup_; }
  static Value markup(Text text);
  // Null if the value is of another kind.
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* text() const;
  const List* list() const;
  const Dict* dict() const;
  Namespace* names() const;
  const Loop* loop() const;
  const Data& data() const { return data_; }

  // Python's bool(value).
  bool is_true() const;
  // A number as Python's operators take it (true is 1).
  bool is_number() const { return boolean() || integer() || real(); }
  bool is_whole() const { return boolean() || integer(); }
  int64_t whole() const { return boolean() ? int64_t{*boolean()} : *integer(); }
  double as_double() const { return real() ? *real() : static_cast<double>(whole()); }
  int depth() const;
  // How many steps it takes to write or compare the value, which may hold a list many times.
  int64_t weight() const;

 private:
  Data data_;
  bool is_markup_ = false;
};

struct List {
  std::vector<Value> items = {};
  ListForm form = ListForm::list;
  int depth = 0;              // of lists and dicts in it
  int64_t weight = 0;         // of all that is in it
  mutable bool used = false;  // a generator that was looped over
};

struct Dict {
  std::vector<std::pair<Value, Value>> items = {};  // in the order of insertion
  int depth = 0;
  int64_t weight = 0;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> items = {};
};

struct Method {
  Value self;
  std::string name;
};

inline constexpr int max_value_depth = 80;
inline constexpr int64_t max_weight = 4'000'000;  // a value is 1, and 1 for 16 bytes of text
inline constexpr int64_t max_text = 64 << 20;     // bytes
// Beyond this size, two dicts are only compared if they have their keys in the same order.
inline constexpr size_t max_unordered = 256;

// What was wrong with a template or its values; whoever knows the line adds it.
struct Refusal {
  std::string expected, found;
};
[[noreturn]] void refuse(std::string expected, std::string found);
// "undefined 'x'", "a text", "an integer": for messages.
std::string described(const Value& value);

// Python's ==.
bool equal(const Value& a, const Value& b);
// Python's a < b (-1), a == b (0), a > b (1). Fails for values without an order.
int compare(const Value& a, const Value& b);
// Python's `item in values`.
bool contains(const Value& values, const Value& item);

// The member of a dict, or null.
const Value* find(const Dict& dict, const Value& key);
const Value* find_member(const Dict& dict, std::string_view key);
// Sets a member as an assignment to a Python dict does.
void put(std::vector<std::pair<Value, Value>>& items, Value key, Value value);

// How many items a loop over the value visits; 0 for what has none.
int64_t item_count(const Value& value);
// The items that a loop visits: of lists, keys of dicts, characters of texts. Fails for others, and
// for texts of more than max_weight bytes.
std::vector<Value> items_of(const Value& value);
// Python's len(); fails for values without one.
int64_t length_of(const Value& value);

// A text with the characters that mean something in HTML escaped, as markupsafe does.
std::string escaped_html(std::string_view text);

// Python's str() and repr(). Fail for what has no text that a template could mean (functions).
std::string str(const Value& value);
std::string repr(const Value& value);
std::string float_text(double value);

// Python's json.dumps.
struct JsonOptions {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent = {};  // what a level is indented by
  std::string between = ", ", after_key = ": ";
};
// Fails beyond max_text.
std::string json_text(const Value& value, const JsonOptions& options);

}  // namespace binade::data::jinja
