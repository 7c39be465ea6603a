#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "binade/data/chat/jinja/python_text.h"
#include "binade/data/chat/jinja/value.h"

// Values as texts: Python's str(), repr() and json.dumps().
namespace binade::data::jinja {
namespace {

std::string repr_of_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    if (one.code == '\n' || one.code == '\r' || one.code == '\t') {
      out += one.code == '\n' ? "\\n" : one.code == '\r' ? "\\r" : "\\t";
    } else if (one.code == '\\' || one.code == static_cast<unsigned char>(quote)) {
      out += '\\';
      out += static_cast<char>(one.code);
    } else if (has_property(one.code, Property::printable)) {
      out += text.substr(at, one.bytes);
    } else if (one.code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(one.code));
    } else {
      const auto code = static_cast<uint32_t>(one.code);
      out += code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
    }
    at += one.bytes;
  }
  return out += quote;
}

std::string repr_of_list(const List& list) {
  if (list.form == ListForm::view || list.form == ListForm::generator ||
      list.form == ListForm::range)
    refuse("a list to write; the filter list makes one", described(Value::list({}, list.form)));
  const bool tuple = list.form == ListForm::tuple;
  std::string out = tuple ? "(" : "[";
  for (const Value& item : list.items) {
    if (out.size() > 1) out += ", ";
    out += repr(item);
  }
  if (tuple && list.items.size() == 1) out += ',';
  return out + (tuple ? ")" : "]");
}

std::string repr_of_dict(const Dict& dict) {
  std::string out = "{";
  for (const auto& [key, value] : dict.items) {
    if (out.size() > 1) out += ", ";
    out += repr(key) + ": " + repr(value);
  }
  return out + "}";
}

void append_json_text(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const auto code = static_cast<uint32_t>(one.code);
    static constexpr std::string_view escaped = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
    const size_t known = code < 0x80 ? escaped.find(static_cast<char>(code)) : std::string::npos;
    if (known != std::string_view::npos) {
      out += '\\';
      out += letters[known];
    } else if (code < 0x20 || (code > 0x7E && code < 0x10000 && ensure_ascii)) {
      out += fmt::format("\\u{:04x}", code);
    } else if (code >= 0x10000 && ensure_ascii) {
      const uint32_t above = code - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10U), 0xDC00 + (above & 0x3FFU));
    } else {
      out += text.substr(at, one.bytes);
    }
    at += one.bytes;
  }
  out += '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return float_text(value);
}

class JsonText {
 public:
  explicit JsonText(const JsonOptions& options) : options_(options) {}

  void add(const Value& value, int level) {
    if (std::cmp_greater(out_.size(), max_text))
      refuse("texts of at most " + std::to_string(max_text) + " bytes", "a longer one");
    if (value.is_none()) {
      out_ += "null";
    } else if (value.boolean()) {
      out_ += *value.boolean() ? "true" : "false";
    } else if (value.integer()) {
      out_ += std::to_string(*value.integer());
    } else if (value.real()) {
      out_ += json_number(*value.real());
    } else if (value.text()) {
      append_json_text(out_, *value.text(), options_.ensure_ascii);
    } else if (const List* list = value.list();
               list && (list->form == ListForm::list || list->form == ListForm::tuple)) {
      add_list(*list, level);
    } else if (const Dict* dict = value.dict()) {
      add_dict(*dict, level);
    } else {
      refuse("a value that JSON can say", described(value));
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void add_list(const List& list, int level) {
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      begin_item(i, level + 1);
      add(list.items[i], level + 1);
    }
    end(list.items.empty(), level);
    out_ += ']';
  }

  void add_dict(const Dict& dict, int level) {
    auto items = dict.items;
    if (options_.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    out_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      begin_item(i, level + 1);
      add_key(items[i].first);
      out_ += options_.after_key;
      add(items[i].second, level + 1);
    }
    end(items.empty(), level);
    out_ += '}';
  }

  void add_key(const Value& key) {
    if (key.text()) return append_json_text(out_, *key.text(), options_.ensure_ascii);
    if (key.list() || key.dict()) refuse("a key that JSON can say", described(key));
    out_ += '"';
    add(key, 0);
    out_ += '"';
  }

  void begin_item(size_t index, int level) {
    if (index > 0) out_ += options_.between;
    new_line(level);
  }
  void end(bool empty, int level) {
    if (!empty) new_line(level);
  }
  void new_line(int level) {
    if (!options_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *options_.indent;
  }

  const JsonOptions& options_;
  std::string out_;
};

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    static constexpr std::string_view escaped = "&<>'\"";
    static constexpr std::string_view names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const size_t known = escaped.find(c);
    if (known == std::string_view::npos) {
      out += c;
    } else {
      out += names[known];
    }
  }
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto made = std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(made.ptr - buffer));
  const size_t at = text.find('e');
  int exponent = 0;
  const char* digits = buffer + at + 1 + (text[at + 1] == '+' ? 1 : 0);
  std::from_chars(digits, made.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);  // as Python: two digits at least
  const auto fixed = std::to_chars(buffer, std::end(buffer), value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string str(const Value& value) {
  if (value.is_undefined()) return {};
  if (const std::string* text = value.text()) return *text;
  return repr(value);
}

std::string repr(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.boolean()) return *value.boolean() ? "True" : "False";
  if (value.integer()) return std::to_string(*value.integer());
  if (value.real()) return float_text(*value.real());
  if (value.is_markup()) return "Markup(" + repr_of_text(*value.text()) + ")";
  if (value.text()) return repr_of_text(*value.text());
  if (const List* list = value.list()) return repr_of_list(*list);
  if (const Dict* dict = value.dict()) return repr_of_dict(*dict);
  refuse("a value to write", described(value));
}

std::string json_text(const Value& value, const JsonOptions& options) {
  JsonText text(options);
  text.add(value, 0);
  return text.take();
}

}  // namespace binade::data::jinja
