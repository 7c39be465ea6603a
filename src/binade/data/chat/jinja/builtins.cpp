#include "binade/data/chat/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data::jinja {
namespace {

Value undefined_named(std::string name) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(name))});
}

[[noreturn]] void refuse_undefined(const Value& value, const std::string& of) {
  refuse("a value to take " + of + " of", described(value));
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto count = static_cast<int64_t>(loop.items->size());
  const auto item_at = [&](int64_t index) {
    return index >= 0 && index < count ? (*loop.items)[static_cast<size_t>(index)]
                                       : undefined_named(name);
  };
  if (name == "index") return Value(loop.index + 1);
  if (name == "index0") return Value(loop.index);
  if (name == "revindex") return Value(count - loop.index);
  if (name == "revindex0") return Value(count - loop.index - 1);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth") return Value(int64_t{1});  // only recursive loops are deeper
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return item_at(loop.index - 1);
  if (name == "nextitem") return item_at(loop.index + 1);
  return undefined_named(name);
}

Value namespace_of(Work& work, const CallArguments& arguments) {
  std::vector<std::pair<std::string, Value>> items;
  if (arguments.positional.size() > 1 ||
      (arguments.positional.size() == 1 && !arguments.positional[0].dict()))
    refuse("a dict or names for namespace()", "other arguments");
  if (!arguments.positional.empty()) {
    for (const auto& [key, value] : arguments.positional[0].dict()->items)
      items.emplace_back(text_argument(key, "namespace"), value);
  }
  items.insert(items.end(), arguments.named.begin(), arguments.named.end());
  for (const auto& [name, value] : items) {
    if (name.starts_with('_')) refuse("names of a namespace without a leading _", name);
  }
  return work.make_namespace(std::move(items));
}

Value dict_of(Work& work, const CallArguments& arguments) {
  std::vector<std::pair<Value, Value>> items;
  if (arguments.positional.size() > 1) refuse("one dict or list for dict()", "more arguments");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (const Dict* dict = given.dict()) {
      work.make_list(static_cast<double>(dict->items.size()));
      items = dict->items;
    } else {
      for (const Value& pair : work.items(given)) {
        const std::vector<Value> both = work.items(pair);
        if (both.size() != 2) refuse("pairs for dict()", described(pair));
        work.look_among(items.size());
        put(items, both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    work.look_among(items.size());
    put(items, Value(name), value);
  }
  return Value::dict(std::move(items));
}

Value range_of(Work& work, const CallArguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    refuse("1 to 3 whole numbers for range()", std::to_string(given.size()) + " arguments");
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i)
    numbers[given.size() == 1 ? 1 : i] = whole_argument(given[i], "range");
  const auto [begin, end, step] = numbers;
  if (step == 0) refuse("a step of range() other than 0", "0");
  const double count =
      std::max(0.0, std::ceil((static_cast<double>(end) - static_cast<double>(begin)) /
                              static_cast<double>(step)));
  if (count > static_cast<double>(max_range))
    refuse("at most " + std::to_string(max_range) + " numbers of range()", "more");
  work.make_list(count);
  std::vector<Value> items;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) items.emplace_back(begin + i * step);
  return Value::list(std::move(items), ListForm::range);
}

Value time_text(Work& work, const CallArguments& arguments) {
  const auto bound = bind("strftime_now", arguments, {"format"}, 1);
  const std::string& format = text_argument(*bound[0], "strftime_now");
  static constexpr std::string_view known = "aAbBcdDeFgGhHIjklmMnprRStTuUVwWxXyY%";
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    const size_t code = i + (i + 1 < format.size() && (format[i + 1] == '-') ? 2 : 1);
    if (code >= format.size() || known.find(format[code]) == std::string_view::npos)
      refuse("a format of a date", json::in_quotes(format));
    i = code;
  }
  if (format.empty()) return Value("");
  if (format.size() > 256) refuse("a format of a date of at most 256 bytes", "a longer one");
  std::array<char, 8192> text;
  const size_t bytes = std::strftime(text.data(), text.size(), format.c_str(), &work.now());
  return Value(std::string(text.data(), bytes));
}

}  // namespace

void Work::spend(int64_t steps) {
  steps_ += steps;
  if (steps_ > max_steps)
    refuse("a template that takes at most " + std::to_string(max_steps) + " steps", "more");
}

void Work::search(std::string_view text, std::string_view part) {
  spend(1 + static_cast<int64_t>((text.size() / 16 + 1) * (part.size() / 64 + 1) / 4));
}

std::vector<Value> Work::items(const Value& value) {
  spend(item_count(value));
  return items_of(value);
}

void Work::make_text(double bytes) {
  if (bytes > static_cast<double>(max_text))
    refuse("texts of at most " + std::to_string(max_text) + " bytes", "a longer one");
  spend(1 + static_cast<int64_t>(bytes) / 32);
}

void Work::make_list(double items) {
  if (items > static_cast<double>(max_steps))
    refuse("a list of at most " + std::to_string(max_steps) + " items", "a longer one");
  spend(1 + static_cast<int64_t>(items));
}

Value Work::make_namespace(std::vector<std::pair<std::string, Value>> items) {
  spend(1);
  namespaces_.push_back(std::make_shared<Namespace>());
  namespaces_.back()->items = std::move(items);
  return Value(namespaces_.back());
}

void Work::clear() {
  for (const auto& names : namespaces_) names->items.clear();
  namespaces_.clear();
}

std::vector<const Value*> bind(std::string_view function, const CallArguments& arguments,
                               std::initializer_list<std::string_view> names, size_t required) {
  std::vector<const Value*> bound(names.size());
  const std::string of = " of " + std::string(function);
  if (arguments.positional.size() > names.size())
    refuse("at most " + std::to_string(names.size()) + " arguments" + of,
           std::to_string(arguments.positional.size()));
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) refuse("an argument" + of, json::in_quotes(name));
    const Value*& place = bound[static_cast<size_t>(found - names.begin())];
    if (place != nullptr) refuse("each argument" + of + " once", json::in_quotes(name) + " twice");
    place = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) refuse("the argument " + std::string(names.begin()[i]) + of, "none");
  }
  return bound;
}

const std::string& text_argument(const Value& value, std::string_view function) {
  if (!value.text()) refuse("a text for " + std::string(function), described(value));
  return *value.text();
}

int64_t whole_argument(const Value& value, std::string_view function) {
  if (!value.is_whole()) refuse("a whole number for " + std::string(function), described(value));
  return value.whole();
}

Value attribute_of(const Value& value, const std::string& name) {
  if (value.is_undefined()) refuse_undefined(value, "the attribute " + json::in_quotes(name));
  if (is_method(value, name)) return Value(std::make_shared<const Method>(Method{value, name}));
  if (const Dict* dict = value.dict()) {
    if (const Value* found = find_member(*dict, name)) return *found;
  } else if (const Namespace* names = value.names()) {
    for (const auto& [key, item] : names->items) {
      if (key == name) return item;
    }
  } else if (const Loop* loop = value.loop()) {
    return loop_attribute(*loop, name);
  }
  return undefined_named(name);
}

Value item_of(const Value& value, const Value& key) {
  if (value.is_undefined()) refuse_undefined(value, "an item");
  const bool can_change = key.dict() || (key.list() && key.list()->form == ListForm::list);
  if (const Dict* dict = value.dict()) {
    const Value* found = can_change ? nullptr : find(*dict, key);
    if (found != nullptr) return *found;
  } else if (const List* list = value.list(); list && key.is_whole()) {
    const auto count = static_cast<int64_t>(list->items.size());
    const int64_t index = key.whole() < 0 ? key.whole() + count : key.whole();
    const bool has_items = list->form != ListForm::view && list->form != ListForm::generator;
    if (has_items && index >= 0 && index < count) return list->items[static_cast<size_t>(index)];
  } else if (const std::string* text = value.text(); text && key.is_whole()) {
    const int64_t count = characters_in(*text);
    const int64_t index = key.whole() < 0 ? key.whole() + count : key.whole();
    if (index >= 0 && index < count) {
      const size_t at = byte_of(*text, index);
      return Value(text->substr(at, character_at(*text, at).bytes));
    }
  }
  if (key.text()) return attribute_of(value, *key.text());
  return key.is_whole() ? undefined_named(std::to_string(key.whole())) : Value();
}

Value slice_of(Work& work, const Value& value, const Value* begin, const Value* end,
               const Value* step) {
  if (value.is_undefined()) refuse_undefined(value, "a part");
  const List* list = value.list();
  const bool has_items = list && list->form != ListForm::view && list->form != ListForm::generator;
  if (!value.text() && !has_items) refuse("a list or text to take a part of", described(value));
  const auto given = [](const Value* one, int64_t otherwise) {
    if (one == nullptr || one->is_none()) return otherwise;
    return whole_argument(*one, "a slice");
  };
  const int64_t by = given(step, 1), count = length_of(value);
  if (by == 0) refuse("a step other than 0", "0");
  const int64_t least = by > 0 ? 0 : -1, most = by > 0 ? count : count - 1;
  const auto place = [&](const Value* one, int64_t otherwise) {
    int64_t at = given(one, otherwise);
    if (one != nullptr && !one->is_none() && at < 0) at = at < -count ? least : at + count;
    return std::clamp(at, least, most);
  };
  const int64_t from = place(begin, by > 0 ? 0 : count - 1), to = place(end, by > 0 ? count : -1);
  if (value.text() && by == 1) {
    const std::string& text = *value.text();
    const size_t first = byte_of(text, from), last = byte_of(text, std::max(from, to));
    work.make_text(static_cast<double>(text.size()));
    return Value(text.substr(first, last - first));
  }
  const std::vector<Value> characters = value.text() ? items_of(value) : std::vector<Value>();
  const std::vector<Value>& all = value.text() ? characters : list->items;
  work.make_list(static_cast<double>(count));
  std::vector<Value> items;
  const int64_t bound = std::max<int64_t>(count, 1);
  const int64_t stride = std::clamp(by, -bound, bound);
  for (int64_t at = from; by > 0 ? at < to : at > to; at += stride)
    items.push_back(all[static_cast<size_t>(at)]);
  if (!value.text()) return Value::list(std::move(items), list->form);
  std::string text;
  for (const Value& item : items) text += *item.text();
  return Value(std::move(text));
}

Value call_global(Work& work, Global function, const CallArguments& arguments) {
  switch (function) {
    case Global::raise_exception: {
      const auto bound = bind("raise_exception", arguments, {"message"}, 1);
      refuse("a conversation that the template takes", json::in_quotes(str(*bound[0])));
    }
    case Global::strftime_now:
      return time_text(work, arguments);
    case Global::name_space:
      return namespace_of(work, arguments);
    case Global::range:
      return range_of(work, arguments);
    case Global::dict:
      return dict_of(work, arguments);
  }
  return {};
}

}  // namespace binade::data::jinja
