#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// A strict JSON reader for untrusted files, and a JSON writer.
namespace binade::json {

// The origin of a text, for messages.
struct Source {
  std::string reader;  // the component that reads it: "safetensors"
  std::string file;
  int64_t offset = 0;  // of the text's first byte in the file
};

struct Member;
struct Content;

// One value of a document, which must outlive it. An accessor fails if the value has another type;
// the message names the file, the byte, the path, and the expected and found types.
class Value {
 public:
  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_boolean() const;
  bool is_integer() const;  // that fits 64 bits
  bool boolean() const;
  // A whole number in [low, high]; 3.0 is not one.
  int64_t integer(int64_t low, int64_t high) const;
  double number() const;
  const std::string& string() const;
  const std::vector<Value>& array() const;
  const std::vector<Member>& object() const;  // in document order

  // A member of an object, by linear search. If it is missing, find() returns null and at() fails.
  const Value* find(std::string_view name) const;
  const Value& at(std::string_view name) const;

  int64_t offset() const { return offset_; }  // in the file
  // Throws an error about this value.
  [[noreturn]] void refuse(std::string expected, std::string found, std::string hint = {}) const;
  // A short description for messages: `"F32"`, `-1`, `an array of 3`.
  std::string describe() const;

 private:
  friend class Builder;
  using Variant = std::variant<std::nullptr_t, bool, int64_t, double, std::string,
                               std::vector<Value>, std::vector<Member>>;

  Value(Variant value, int64_t offset, const Content* content);
  template <class T>
  const T& get(const char* expected) const;
  bool find_path(const Value* target, std::string& path) const;

  Variant value_;
  int64_t offset_;
  const Content* content_;
};

struct Member {
  std::string name;
  Value value;
};

// Defined here because they need a complete Member.
inline Value::Value(Variant value, int64_t offset, const Content* content)
    : value_(std::move(value)), offset_(offset), content_(content) {}
inline bool Value::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
inline bool Value::is_object() const { return std::holds_alternative<std::vector<Member>>(value_); }
inline bool Value::is_array() const { return std::holds_alternative<std::vector<Value>>(value_); }
inline bool Value::is_string() const { return std::holds_alternative<std::string>(value_); }
inline bool Value::is_boolean() const { return std::holds_alternative<bool>(value_); }
inline bool Value::is_integer() const { return std::holds_alternative<int64_t>(value_); }

// A parsed text.
class Document {
 public:
  explicit Document(std::unique_ptr<const Content> content);
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  const Value& root() const;

 private:
  std::unique_ptr<const Content> content_;
};

inline constexpr int max_depth = 64;
// Enough for a safetensors header of 800,000 tensors.
inline constexpr int64_t max_values = 8'000'000;

// Parses strictly. Besides bad syntax it refuses repeated names, nesting deeper than max_depth,
// more than max_values values, a byte order mark, zero bytes, text after the value, numbers out of
// a double's range and invalid UTF-8. Integers that do not fit 64 bits become doubles.
Document parse(std::string_view text, Source source);

// Writes JSON incrementally: Writer().begin_object().key("n").value(1).end_object().text().
class Writer {
 public:
  // With indent 0 everything is on one line.
  explicit Writer(int indent = 0) : indent_(indent) {}

  Writer& begin_object() { return open('{'); }
  Writer& end_object() { return close('}'); }
  Writer& begin_array() { return open('['); }
  Writer& end_array() { return close(']'); }
  Writer& key(std::string_view name);
  // Fails on invalid UTF-8 and on non-finite numbers.
  Writer& value(std::string_view text);
  Writer& value(const char* text) { return value(std::string_view(text)); }
  Writer& value(bool value) { return put(value ? "true" : "false"); }
  Writer& value(double value);  // the shortest text that reads back as the same number
  Writer& value(int64_t value) { return put(std::to_string(value)); }
  Writer& value(int value) { return put(std::to_string(value)); }
  Writer& value(std::nullptr_t) { return put("null"); }

  const std::string& text() const { return text_; }

 private:
  Writer& open(char bracket);
  Writer& close(char bracket);
  Writer& put(std::string_view token);
  void start_item();
  void new_line();

  int indent_;
  std::string text_;
  std::vector<bool> has_items_;  // per open bracket
  bool after_key_ = false;
};

// Text for messages: in quotes, escaped to ASCII, truncated if long.
std::string in_quotes(std::string_view text);

}  // namespace binade::json
