#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// JSON from files nobody vouches for, and JSON for others to read.
namespace binade::json {

// Where a text comes from, for messages.
struct Source {
  std::string reader;  // who reads: "safetensors"
  std::string file;
  int64_t offset = 0;  // of the text's first byte in the file
};

struct Member;
struct Content;

// One value of a document, which it must not outlive. The accessors fail, naming file, byte, path,
// expected and found, where the value is something else.
class Value {
 public:
  bool is_null() const;
  bool is_object() const;
  bool boolean() const;
  // A whole number in [low, high]; 3.0 is none.
  int64_t integer(int64_t low, int64_t high) const;
  double number() const;
  const std::string& string() const;
  const std::vector<Value>& array() const;
  const std::vector<Member>& object() const;  // in the order of the text

  // A member of an object: null, or a failure, where there is none. Looks at one after another.
  const Value* find(std::string_view name) const;
  const Value& at(std::string_view name) const;

  int64_t offset() const { return offset_; }  // in the file
  // Fails about this value.
  [[noreturn]] void refuse(std::string expected, std::string found, std::string hint = {}) const;
  // What it is, in words: `"F32"`, `-1`, `an array of 3`.
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

// Here, where a Member is complete.
inline Value::Value(Variant value, int64_t offset, const Content* content)
    : value_(std::move(value)), offset_(offset), content_(content) {}
inline bool Value::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
inline bool Value::is_object() const { return std::holds_alternative<std::vector<Member>>(value_); }

// A whole parsed text.
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
inline constexpr int64_t max_values = 4'000'000;

// Reads strictly: beyond bad syntax refuses repeated names, nesting over max_depth, more than
// max_values values, a byte order mark, zero bytes, anything after the value, numbers past a
// double's range and bytes that are not UTF-8. Integers past 64 bits become doubles.
Document parse(std::string_view text, Source source);

// Writes JSON piece by piece: Writer().begin_object().key("n").value(1).end_object().text().
class Writer {
 public:
  // indent 0: everything on one line.
  explicit Writer(int indent = 0) : indent_(indent) {}

  Writer& begin_object() { return open('{'); }
  Writer& end_object() { return close('}'); }
  Writer& begin_array() { return open('['); }
  Writer& end_array() { return close(']'); }
  Writer& key(std::string_view name);
  // Fails on bytes that are not UTF-8 and on numbers that are not finite.
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

// Text as messages show it: in quotes, escaped to plain ASCII, cut where it is long.
std::string in_quotes(std::string_view text);

}  // namespace binade::json
