#include "binade/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "binade/base/error.h"
#include "binade/base/text.h"

namespace binade::json {

struct Content {
  Source source;
  std::optional<Value> root = {};
};

namespace {

[[noreturn]] void refuse_at(const Source& source, int64_t offset, const std::string& path,
                            std::string expected, std::string found, std::string hint = {}) {
  std::string argument = source.file + " at byte " + std::to_string(offset);
  if (!path.empty()) argument += " (" + path + ")";
  fail(source.reader, {.argument = std::move(argument),
                       .expected = std::move(expected),
                       .found = std::move(found),
                       .hint = std::move(hint)});
}

// The text escaped to ASCII and truncated to `limit` characters.
std::string escaped(std::string_view text, size_t limit) {
  std::string result;
  for (const char c : text.substr(0, limit)) {
    if (c >= ' ' && c <= '~') {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > limit ? result + "..." : result;
}

// An iterator over the text that reports how far the lexer has read.
class TrackingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

}  // namespace

// Receives nlohmann's SAX events and builds values, innermost first.
class Builder {
 public:
  Builder(std::string_view text, Content& content)
      : text_(text),
        source_(content.source),
        content_(content),
        reached_(text.data()),
        consumed_(text.data()) {}

  void build() {
    const char* begin = text_.data();
    const char* end = begin + text_.size();
    nlohmann::json::sax_parse(TrackingIterator(begin, &reached_), TrackingIterator(end, &reached_),
                              this);
  }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return add(static_cast<double>(value));
    return add(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // not in JSON text
  bool start_object(size_t) { return open(std::vector<Member>()); }
  bool start_array(size_t) { return open(std::vector<Value>()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    const int64_t offset = start_of_token();
    Frame& frame = open_.back();
    if (!is_new(frame, name)) {
      refuse_at(source_, offset, {}, "names that differ", in_quotes(name) + " twice");
    }
    frame.key = std::move(name);
    consumed_ = reached_;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    const auto at =
        std::min<int64_t>(static_cast<int64_t>(position) - 1, static_cast<int64_t>(text_.size()));
    // Versions of the library word this one differently.
    if (text_.empty()) refuse_at(source_, source_.offset, {}, "JSON", "an unexpected end of input");
    std::string_view what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
    // value - ..."
    for (const std::string_view preamble : {"] ", "syntax error ", " - "}) {
      if (const size_t found = what.find(preamble); found != std::string_view::npos) {
        what.remove_prefix(found + preamble.size());
      }
    }
    refuse_at(source_, source_.offset + std::max<int64_t>(at, 0), {}, "JSON",
              "an error: " + escaped(what, 200));
  }

 private:
  struct Frame {
    Value value;
    std::unordered_set<std::string> names = {};  // of an object with many members
    std::string key = {};
  };

  // Whether an open object has no member of this name yet. Few names are compared one by one:
  // most objects are small, and a set for each takes most of the time.
  static bool is_new(Frame& frame, const std::string& name) {
    constexpr size_t few = 16;
    const auto& members = std::get<std::vector<Member>>(frame.value.value_);
    if (members.size() < few)
      return std::none_of(members.begin(), members.end(),
                          [&name](const Member& member) { return member.name == name; });
    if (frame.names.empty())
      for (const Member& member : members) frame.names.insert(member.name);
    return frame.names.insert(name).second;
  }

  // File offset of the current event's token: past earlier events and separators.
  int64_t start_of_token() const {
    const char* at = consumed_;
    const auto separates = [](char c) {
      return c == ' ' || c == ',' || c == ':' || c == '\n' || c == '\r' || c == '\t';
    };
    while (at != reached_ && separates(*at)) ++at;
    return source_.offset + (at - text_.data());
  }

  Value make_value(Value::Variant value) {
    const int64_t offset = start_of_token();
    if (++count_ > max_values) {
      refuse_at(source_, offset, {}, "at most " + std::to_string(max_values) + " values", "more");
    }
    Value result(std::move(value), offset, &content_);
    consumed_ = reached_;
    return result;
  }

  bool add(Value::Variant value) {
    attach(make_value(std::move(value)));
    return true;
  }

  bool open(Value::Variant empty) {
    if (open_.size() == max_depth) {
      refuse_at(source_, start_of_token(), {},
                "nesting of at most " + std::to_string(max_depth) + " levels", "more");
    }
    open_.push_back({make_value(std::move(empty))});
    return true;
  }

  bool close() {
    Value value = std::move(open_.back().value);
    open_.pop_back();
    consumed_ = reached_;
    attach(std::move(value));
    return true;
  }

  void attach(Value value) {
    // Most arrays and objects of large files have a few items.
    constexpr size_t few = 3;
    if (open_.empty()) {
      content_.root = std::move(value);
    } else if (Frame& frame = open_.back(); frame.value.is_object()) {
      auto& members = std::get<std::vector<Member>>(frame.value.value_);
      if (members.empty()) members.reserve(few);
      members.push_back({std::move(frame.key), std::move(value)});
    } else {
      auto& items = std::get<std::vector<Value>>(frame.value.value_);
      if (items.empty()) items.reserve(few);
      items.push_back(std::move(value));
    }
  }

  std::string_view text_;
  const Source& source_;
  Content& content_;
  const char* reached_;   // end of what the lexer has read
  const char* consumed_;  // value of reached_ at the last event
  int64_t count_ = 0;
  std::vector<Frame> open_;
};

template <class T>
const T& Value::get(const char* expected) const {
  if (const T* value = std::get_if<T>(&value_)) return *value;
  refuse(expected, describe());
}

bool Value::boolean() const { return get<bool>("true or false"); }
const std::string& Value::string() const { return get<std::string>("a string"); }
const std::vector<Value>& Value::array() const { return get<std::vector<Value>>("an array"); }
const std::vector<Member>& Value::object() const { return get<std::vector<Member>>("an object"); }

int64_t Value::integer(int64_t low, int64_t high) const {
  const auto* value = std::get_if<int64_t>(&value_);
  if (value != nullptr && *value >= low && *value <= high) return *value;
  refuse(fmt::format("a whole number from {} to {}", low, high), describe());
}

double Value::number() const {
  if (const auto* whole = std::get_if<int64_t>(&value_)) return static_cast<double>(*whole);
  return get<double>("a number");
}

const Value* Value::find(std::string_view name) const {
  for (const Member& member : object()) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

const Value& Value::at(std::string_view name) const {
  if (const Value* found = find(name)) return *found;
  refuse("a member " + in_quotes(name), "none of that name");
}

void Value::refuse(std::string expected, std::string found, std::string hint) const {
  std::string path;
  content_->root->find_path(this, path);
  refuse_at(content_->source, offset_, path, std::move(expected), std::move(found),
            std::move(hint));
}

// Appends the path from here to the value at address `target`, "a.b[2]"; used only for errors.
bool Value::find_path(const Value* target, std::string& path) const {
  if (this == target) return true;
  const size_t length = path.size();
  if (const auto* members = std::get_if<std::vector<Member>>(&value_)) {
    for (const Member& member : *members) {
      path += (length > 0 ? "." : "") + escaped(member.name, 60);
      if (member.value.find_path(target, path)) return true;
      path.resize(length);
    }
  } else if (const auto* items = std::get_if<std::vector<Value>>(&value_)) {
    for (size_t i = 0; i < items->size(); ++i) {
      path += fmt::format("[{}]", i);
      if ((*items)[i].find_path(target, path)) return true;
      path.resize(length);
    }
  }
  return false;
}

std::string Value::describe() const {
  struct Words {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
    std::string operator()(const std::string& value) const { return in_quotes(value); }
    std::string operator()(const std::vector<Value>& value) const {
      return fmt::format("an array of {}", value.size());
    }
    std::string operator()(const std::vector<Member>& value) const {
      return fmt::format("an object of {}", value.size());
    }
  };
  return std::visit(Words(), value_);
}

Document::Document(std::unique_ptr<const Content> content) : content_(std::move(content)) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

const Value& Document::root() const { return *content_->root; }

Document parse(std::string_view text, Source source) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    refuse_at(source, source.offset, {}, "JSON", "a byte order mark",
              "save the file as plain UTF-8");
  }
  // The lexer would take a zero byte as the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    refuse_at(source, source.offset + static_cast<int64_t>(zero), {}, "JSON", "a zero byte");
  }
  auto content = std::make_unique<Content>(Content{std::move(source)});
  Builder(text, *content).build();
  return Document(std::move(content));
}

Writer& Writer::key(std::string_view name) {
  value(name);
  text_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

Writer& Writer::value(std::string_view text) {
  try {
    return put(unicode_escaped(nlohmann::json(text).dump()));
  } catch (const nlohmann::json::exception&) {
    fail("json", {.argument = "text", .expected = "UTF-8", .found = in_quotes(text)});
  }
}

Writer& Writer::value(double value) {
  if (!std::isfinite(value)) {
    fail("json",
         {.argument = "number", .expected = "a finite one", .found = fmt::format("{}", value)});
  }
  return put(nlohmann::json(value).dump());
}

Writer& Writer::open(char bracket) {
  start_item();
  text_ += bracket;
  has_items_.push_back(false);
  return *this;
}

Writer& Writer::close(char bracket) {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) new_line();
  text_ += bracket;
  return *this;
}

Writer& Writer::put(std::string_view token) {
  start_item();
  text_ += token;
  return *this;
}

void Writer::start_item() {
  if (std::exchange(after_key_, false) || has_items_.empty()) return;
  if (has_items_.back()) text_ += ',';
  has_items_.back() = true;
  new_line();
}

void Writer::new_line() {
  if (indent_ == 0) return;
  text_ += '\n';
  text_.append(has_items_.size() * static_cast<size_t>(indent_), ' ');
}

std::string in_quotes(std::string_view text) { return "\"" + escaped(text, 80) + "\""; }

}  // namespace binade::json
