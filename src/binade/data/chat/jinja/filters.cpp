#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "binade/base/json.h"
#include "binade/base/text.h"
#include "binade/data/chat/jinja/builtins.h"
#include "binade/data/chat/jinja/python_text.h"
#include "binade/data/chat/jinja/sequence_filters.h"

namespace binade::data::jinja {
namespace {

using Args = const CallArguments&;

// The text of a value, as a filter of texts takes it.
std::string text_for(Work& work, const Value& value) {
  work.spend(value.weight());
  return str(value);
}

template <auto function>
Value of_text(Work& work, const Value& value, Args arguments) {
  bind("a filter", arguments, {});
  return Value(function(text_for(work, value)));
}

// The filter title: words begin after white space, hyphens and brackets.
std::string titled_words(std::string_view text) {
  std::string out;
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    const std::string_view letter = text.substr(at, one.bytes);
    const bool is_gap = is_python_space(one.code) || one.code == '-' || one.code == '(' ||
                        one.code == '{' || one.code == '[' || one.code == '<';
    out += begins ? upper(letter) : lower(letter);
    begins = is_gap;
    at += one.bytes;
  }
  return out;
}

Value trim_filter(Work& work, const Value& value, Args arguments) {
  const Value* set = bind("trim", arguments, {"chars"})[0];
  const std::string text = text_for(work, value);
  if (set == nullptr || set->is_none()) return Value(stripped(text, Side::both));
  if (set->text()) work.search(text, *set->text());
  return Value(stripped(text, Side::both, text_argument(*set, "trim")));
}

Value replace_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("replace", arguments, {"old", "new", "count"}, 2);
  const std::string text = text_for(work, value), old = text_for(work, *bound[0]),
                    by = text_for(work, *bound[1]);
  const bool all = bound[2] == nullptr || bound[2]->is_none();
  work.search(text, old);
  work.make_text(static_cast<double>(text.size()) +
                 static_cast<double>(count_of(text, old)) * static_cast<double>(by.size()));
  return Value(replaced(text, old, by, all ? -1 : whole_argument(*bound[2], "replace")));
}

Value indent_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("indent", arguments, {"width", "first", "blank"});
  const std::string text = text_argument(value, "indent") + "\n";
  std::string indent(4, ' ');
  if (bound[0] != nullptr && bound[0]->text()) {
    indent = *bound[0]->text();
  } else if (bound[0] != nullptr) {
    const int64_t width = std::max<int64_t>(whole_argument(*bound[0], "indent"), 0);
    work.make_text(static_cast<double>(width));
    indent.assign(static_cast<size_t>(width), ' ');
  }
  const bool blank = bound[2] && bound[2]->is_true();
  const std::vector<std::string_view> lines = lines_of(text);
  work.make_text(static_cast<double>(text.size()) +
                 static_cast<double>(lines.size()) * static_cast<double>(indent.size()));
  std::string out = bound[1] && bound[1]->is_true() ? indent : std::string();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += indent;
    out += lines[i];
  }
  return Value(std::move(out));
}

Value default_filter(Work&, const Value& value, Args arguments) {
  const auto bound = bind("default", arguments, {"default_value", "boolean"});
  const bool for_false = bound[1] && bound[1]->is_true();
  if (!value.is_undefined() && (!for_false || value.is_true())) return value;
  return bound[0] != nullptr ? *bound[0] : Value("");
}

Value length_filter(Work&, const Value& value, Args arguments) {
  bind("length", arguments, {});
  return Value(length_of(value));
}

Value string_filter(Work& work, const Value& value, Args arguments) {
  bind("string", arguments, {});
  return value.is_text() ? value : Value(text_for(work, value));
}

Value safe_filter(Work& work, const Value& value, Args arguments) {
  return Value::markup(std::get<Text>(string_filter(work, value, arguments).data()));
}

Value escape_filter(Work& work, const Value& value, Args arguments) {
  bind("escape", arguments, {});
  if (value.is_markup()) return value;
  return Value::markup(std::make_shared<const std::string>(escaped_html(text_for(work, value))));
}

// A number as a whole one, toward zero; none for those that int() refuses.
std::optional<int64_t> truncated(double value) {
  constexpr double bound = 9223372036854775808.0;
  if (!std::isfinite(value)) return {};
  if (value >= bound || value < -bound) refuse("a whole number of 64 bits", float_text(value));
  return static_cast<int64_t>(value);
}

Value int_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("int", arguments, {"default", "base"});
  const int64_t base = bound[1] != nullptr ? whole_argument(*bound[1], "int") : 10;
  if (base != 0 && (base < 2 || base > 36)) refuse("a base of 2 to 36", std::to_string(base));
  if (value.is_undefined()) refuse("a value for int", described(value));
  if (value.text()) work.read_characters(value);
  std::optional<int64_t> number;
  if (value.is_whole()) {
    number = value.whole();
  } else if (value.real()) {
    number = truncated(*value.real());
  } else if (const std::string* text = value.text()) {
    number = integer_of(*text, static_cast<int>(base));
    if (const auto real = float_of(*text); !number && real) number = truncated(*real);
  }
  if (number) return Value(*number);
  return bound[0] != nullptr ? *bound[0] : Value(int64_t{0});
}

Value float_filter(Work& work, const Value& value, Args arguments) {
  const Value* otherwise = bind("float", arguments, {"default"})[0];
  if (value.is_undefined()) refuse("a value for float", described(value));
  if (value.text()) work.read_characters(value);
  if (value.is_number()) return Value(value.as_double());
  const auto number = value.text() ? float_of(*value.text()) : std::nullopt;
  if (number) return Value(*number);
  return otherwise != nullptr ? *otherwise : Value(0.0);
}

Value abs_filter(Work&, const Value& value, Args arguments) {
  bind("abs", arguments, {});
  if (value.real()) return Value(std::fabs(*value.real()));
  if (!value.is_whole()) refuse("a number for abs", described(value));
  return value.whole() < 0 ? negative(Value(value.whole())) : Value(value.whole());
}

Value round_filter(Work&, const Value& value, Args arguments) {
  const auto bound = bind("round", arguments, {"precision", "method"});
  if (!value.is_number()) refuse("a number for round", described(value));
  const int64_t precision = bound[0] != nullptr ? whole_argument(*bound[0], "round") : 0;
  const std::string method = bound[1] != nullptr ? text_argument(*bound[1], "round") : "common";
  if (precision < 0 || precision > 15)
    refuse("0 to 15 digits for round", std::to_string(precision));
  if (method == "common") {
    if (value.is_whole()) return Value(value.whole());
    if (!std::isfinite(value.as_double())) return value;
    char digits[400];
    std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value.as_double());
    return Value(std::strtod(digits, nullptr));
  }
  if (method != "ceil" && method != "floor")
    refuse("common, ceil or floor for round", json::in_quotes(method));
  const double scale = std::pow(10, static_cast<double>(precision)),
               scaled = value.as_double() * scale;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value tojson_filter(Work& work, const Value& value, Args arguments) {
  const auto bound =
      bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = bound[0] && bound[0]->is_true();
  options.sort_keys = bound[3] && bound[3]->is_true();
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    const bool is_text = bound[1]->text() != nullptr;
    const int64_t width =
        is_text ? 0 : std::clamp<int64_t>(whole_argument(*bound[1], "tojson"), 0, 64);
    options.indent =
        is_text ? shortened(*bound[1]->text(), 64) : std::string(static_cast<size_t>(width), ' ');
    options.between = ",";
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    const std::vector<Value> both = work.items(*bound[2]);
    if (both.size() != 2) refuse("two separators for tojson", described(*bound[2]));
    options.between = text_argument(both[0], "tojson");
    options.after_key = text_argument(both[1], "tojson");
  }
  work.spend(value.weight() * (options.indent ? 4 : 1));
  std::string text = json_text(value, options);
  work.make_text(static_cast<double>(text.size()));
  return Value(std::move(text));
}

Value items_filter(Work& work, const Value& value, Args arguments) {
  bind("items", arguments, {});
  if (value.is_undefined()) return Value::list({}, ListForm::generator);
  if (!value.dict()) refuse("a dict for items", described(value));
  const Value view = call_method(work, value, "items", {});
  return Value::list(view.list()->items, ListForm::generator);
}

struct NamedFilter {
  std::string_view name;
  Filter call;
};
constexpr std::array named_filters = std::to_array<NamedFilter>({
    {"trim", trim_filter},
    {"tojson", tojson_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"default", default_filter},
    {"d", default_filter},
    {"string", string_filter},
    {"safe", safe_filter},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"upper", of_text<upper>},
    {"lower", of_text<lower>},
    {"title", of_text<titled_words>},
    {"capitalize", of_text<capitalized>},
    {"replace", replace_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"list", list_filter},
    {"map", map_filter},
    {"select", select_filter},
    {"reject", reject_filter},
    {"selectattr", selectattr_filter},
    {"rejectattr", rejectattr_filter},
    {"sort", sort_filter},
    {"dictsort", dictsort_filter},
    {"unique", unique_filter},
    {"reverse", reverse_filter},
    {"sum", sum_filter},
    {"min", min_filter},
    {"max", max_filter},
    {"attr", attr_filter},
});

const NamedFilter* find_filter(std::string_view name) {
  const auto found = std::find_if(named_filters.begin(), named_filters.end(),
                                  [&](const NamedFilter& one) { return one.name == name; });
  return found == named_filters.end() ? nullptr : &*found;
}

}  // namespace

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

Filter filter_of(std::string_view name) {
  const NamedFilter* filter = find_filter(name);
  if (filter == nullptr)
    refuse("a filter that Binade knows, such as trim or tojson", json::in_quotes(name));
  return filter->call;
}

}  // namespace binade::data::jinja
