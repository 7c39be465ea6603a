#include <algorithm>
#include <array>
#include <functional>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/builtins.h"
#include "binade/data/chat/jinja/python_text.h"

// Methods of texts, dicts, lists and loops that change nothing.
namespace binade::data::jinja {
namespace {

using TextMethod = Value (*)(Work&, const std::string&, const CallArguments&);

template <Side side>
Value strip_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const Value* set = bind("strip()", arguments, {"chars"})[0];
  if (set == nullptr || set->is_none()) return Value(stripped(self, side));
  const std::string& characters = text_argument(*set, "strip()");
  work.search(self, characters);
  return Value(stripped(self, side, characters));
}

template <auto function>
Value text_method(Work&, const std::string& self, const CallArguments& arguments) {
  bind("a method", arguments, {});
  return Value(function(self));
}

Value list_of_parts(Work& work, const std::vector<std::string_view>& parts) {
  work.make_list(static_cast<double>(parts.size()));
  return Value::list({parts.begin(), parts.end()});
}

// Before a text is cut at white space: an estimate of the parts.
void make_parts(Work& work, const std::string& self) {
  const auto gaps = std::count_if(self.begin(), self.end(),
                                  [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  work.make_list(static_cast<double>(gaps));
}

template <auto function>
Value split_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const auto bound = bind("split()", arguments, {"sep", "maxsplit"});
  const int64_t most = bound[1] != nullptr ? whole_argument(*bound[1], "split()") : -1;
  if (bound[0] == nullptr || bound[0]->is_none()) {
    make_parts(work, self);
    return list_of_parts(work, function(self, std::nullopt, most));
  }
  const std::string& separator = text_argument(*bound[0], "split()");
  if (separator.empty()) refuse("a separator for split()", "an empty text");
  work.search(self, separator);
  work.make_list(static_cast<double>(count_of(self, separator)));
  return list_of_parts(work, function(self, separator, most));
}

Value lines_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const Value* keep = bind("splitlines()", arguments, {"keepends"})[0];
  make_parts(work, self);
  return list_of_parts(work, lines_of(self, keep != nullptr && keep->is_true()));
}

template <bool from_end>
Value partition_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const std::string& separator =
      text_argument(*bind("partition()", arguments, {"sep"}, 1)[0], "partition()");
  if (separator.empty()) refuse("a separator for partition()", "an empty text");
  work.search(self, separator);
  const size_t at = from_end ? self.rfind(separator) : self.find(separator);
  std::vector<Value> parts;
  if (at == std::string::npos) {
    parts = {Value(self), Value(""), Value("")};
    if (from_end) std::swap(parts[0], parts[2]);
  } else {
    parts = {Value(self.substr(0, at)), Value(separator),
             Value(self.substr(at + separator.size()))};
  }
  return Value::list(std::move(parts), ListForm::tuple);
}

// The part that begin and end, in characters, leave to look in; none if begin is past the end.
std::optional<std::pair<size_t, size_t>> part_of(const std::string& self, const Value* begin,
                                                 const Value* end) {
  const int64_t count = characters_in(self);
  const auto place = [&](const Value* one, int64_t otherwise) {
    if (one == nullptr || one->is_none()) return otherwise;
    const int64_t at = whole_argument(*one, "the part to look in");
    return at < 0 ? std::max<int64_t>(at < -count ? 0 : at + count, 0) : at;
  };
  const int64_t from = place(begin, 0), to = std::min(place(end, count), count);
  if (from > count || from > to) return {};
  return std::pair(byte_of(self, from), byte_of(self, to));
}

template <bool at_end>
Value affix_method(Work&, const std::string& self, const CallArguments& arguments) {
  const auto bound = bind("startswith()", arguments, {"prefix", "start", "end"}, 1);
  const auto part = part_of(self, bound[1], bound[2]);
  const auto fits = [&](const Value& one) {
    const std::string& affix = text_argument(one, at_end ? "endswith()" : "startswith()");
    if (!part) return false;
    const std::string_view text =
        std::string_view(self).substr(part->first, part->second - part->first);
    return at_end ? text.ends_with(affix) : text.starts_with(affix);
  };
  const List* several = bound[0]->list();
  if (several == nullptr || several->form != ListForm::tuple) return Value(fits(*bound[0]));
  return Value(std::any_of(several->items.begin(), several->items.end(), fits));
}

template <bool from_end, bool fails>
Value find_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const auto bound = bind("find()", arguments, {"sub", "start", "end"}, 1);
  const std::string& wanted = text_argument(*bound[0], "find()");
  work.search(self, wanted);
  const auto part = part_of(self, bound[1], bound[2]);
  size_t at = std::string::npos;
  if (part) {
    const std::string_view text =
        std::string_view(self).substr(part->first, part->second - part->first);
    at = from_end ? text.rfind(wanted) : text.find(wanted);
  }
  if (at != std::string::npos)
    return Value(characters_in(std::string_view(self).substr(0, part->first + at)));
  if (fails) refuse("a text that is there, for index()", json::in_quotes(wanted));
  return Value(int64_t{-1});
}

Value count_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const auto bound = bind("count()", arguments, {"sub", "start", "end"}, 1);
  const auto part = part_of(self, bound[1], bound[2]);
  const std::string& wanted = text_argument(*bound[0], "count()");
  if (!part) return Value(int64_t{0});
  work.search(self, wanted);
  return Value(
      count_of(std::string_view(self).substr(part->first, part->second - part->first), wanted));
}

Value replace_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const auto bound = bind("replace()", arguments, {"old", "new", "count"}, 2);
  const std::string &old = text_argument(*bound[0], "replace()"),
                    &by = text_argument(*bound[1], "replace()");
  const int64_t most = bound[2] != nullptr ? whole_argument(*bound[2], "replace()") : -1;
  work.search(self, old);
  const auto count = static_cast<double>(count_of(self, old));
  work.make_text(static_cast<double>(self.size()) + count * static_cast<double>(by.size()));
  return Value(replaced(self, old, by, most));
}

Value join_method(Work& work, const std::string& self, const CallArguments& arguments) {
  const Value* values = bind("join()", arguments, {"iterable"}, 1)[0];
  if (values->is_undefined()) refuse("texts for join()", described(*values));
  std::string text;
  bool first = true;
  for (const Value& item : work.items(*values)) {
    if (!std::exchange(first, false)) text += self;
    text += text_argument(item, "join()");
    work.make_text(static_cast<double>(self.size() + item.text()->size()));
    if (std::cmp_greater(text.size(), max_text)) work.make_text(static_cast<double>(text.size()));
  }
  return Value(std::move(text));
}

// One field of format(): "{}", "{0}" or "{name}".
const Value& format_field(std::string_view field, const CallArguments& arguments, size_t& next) {
  const bool is_number =
      !field.empty() && field.find_first_not_of("0123456789") == std::string_view::npos;
  if (field.empty() || is_number) {
    const auto given =
        is_number ? integer_of(field, 10) : std::optional<int64_t>(static_cast<int64_t>(next++));
    if (!given || std::cmp_greater_equal(*given, arguments.positional.size()))
      refuse("an argument of format() for each {}", "none for " + json::in_quotes(field));
    return arguments.positional[static_cast<size_t>(*given)];
  }
  const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                  [&](const auto& one) { return one.first == field; });
  if (named == arguments.named.end())
    refuse("{}, {0} or {name} of an argument of format()", json::in_quotes(field));
  return named->second;
}

Value format_method(Work& work, const std::string& self, const CallArguments& arguments) {
  std::string text;
  size_t next = 0;
  for (size_t at = 0; at < self.size(); ++at) {
    const char c = self[at];
    const bool is_bracket = c == '{' || c == '}';
    if (is_bracket && at + 1 < self.size() && self[at + 1] == c)
      ++at;  // "{{" is "{"
    else if (is_bracket) {
      const size_t end = c == '{' ? self.find('}', at) : std::string::npos;
      if (end == std::string::npos) refuse("brackets in pairs for format()", json::in_quotes(self));
      const Value& value =
          format_field(std::string_view(self).substr(at + 1, end - at - 1), arguments, next);
      work.spend(value.weight());
      text += str(value);
      work.make_text(static_cast<double>(text.size()));
      at = end;
      continue;
    }
    text += c;
  }
  return Value(std::move(text));
}

template <bool at_end>
Value remove_method(Work&, const std::string& self, const CallArguments& arguments) {
  const std::string& affix =
      text_argument(*bind("removeprefix()", arguments, {"prefix"}, 1)[0], "removeprefix()");
  const bool there = at_end ? self.ends_with(affix) : self.starts_with(affix);
  if (!there) return Value(self);
  return Value(at_end ? self.substr(0, self.size() - affix.size()) : self.substr(affix.size()));
}

// Whether there is a character and all have a property.
template <Property... properties>
Value property_method(Work&, const std::string& self, const CallArguments& arguments) {
  bind("a method", arguments, {});
  for (size_t at = 0; at < self.size();) {
    const Character one = character_at(self, at);
    if (!(has_property(one.code, properties) || ...)) return Value(false);
    at += one.bytes;
  }
  return Value(!self.empty());
}

Value space_method(Work&, const std::string& self, const CallArguments& arguments) {
  bind("isspace()", arguments, {});
  return Value(!self.empty() && stripped(self, Side::both).empty());
}

// islower() and isupper(): whether there is a letter with a case, and none of the other.
template <Property wanted, Property other>
Value case_method(Work&, const std::string& self, const CallArguments& arguments) {
  bind("a method", arguments, {});
  bool found = false;
  for (size_t at = 0; at < self.size();) {
    const Character one = character_at(self, at);
    if (has_property(one.code, other)) return Value(false);
    found |= has_property(one.code, wanted);
    at += one.bytes;
  }
  return Value(found);
}

struct NamedTextMethod {
  std::string_view name;
  TextMethod call;
};
constexpr std::array text_methods = std::to_array<NamedTextMethod>({
    {"strip", strip_method<Side::both>},
    {"lstrip", strip_method<Side::left>},
    {"rstrip", strip_method<Side::right>},
    {"split", split_method<split>},
    {"rsplit", split_method<split_from_right>},
    {"splitlines", lines_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"find", find_method<false, false>},
    {"rfind", find_method<true, false>},
    {"index", find_method<false, true>},
    {"rindex", find_method<true, true>},
    {"count", count_method},
    {"replace", replace_method},
    {"join", join_method},
    {"format", format_method},
    {"removeprefix", remove_method<false>},
    {"removesuffix", remove_method<true>},
    {"upper", text_method<upper>},
    {"lower", text_method<lower>},
    {"title", text_method<titled>},
    {"capitalize", text_method<capitalized>},
    {"isalpha", property_method<Property::alphabetic>},
    {"isdigit", property_method<Property::decimal>},
    {"isdecimal", property_method<Property::decimal>},
    {"isnumeric", property_method<Property::decimal>},
    {"isalnum", property_method<Property::alphabetic, Property::decimal>},
    {"isspace", space_method},
    {"islower", case_method<Property::cased_lower, Property::cased_upper>},
    {"isupper", case_method<Property::cased_upper, Property::cased_lower>},
});

TextMethod find_text_method(std::string_view name) {
  const auto found = std::find_if(text_methods.begin(), text_methods.end(),
                                  [&](const NamedTextMethod& one) { return one.name == name; });
  return found == text_methods.end() ? nullptr : found->call;
}

constexpr std::string_view dict_methods[] = {"items", "keys", "values", "get", "copy"};
// They exist in Python and change their value, which jinja2's sandbox refuses.
constexpr std::string_view changing_methods[] = {
    "append", "extend", "insert", "remove",  "reverse",    "sort",   "clear",
    "pop",    "add",    "update", "popitem", "setdefault", "discard"};

Value call_dict_method(Work& work, const Dict& self, const std::string& name,
                       const CallArguments& arguments) {
  if (name == "get") {
    const auto bound = bind("get()", arguments, {"key", "default"}, 1);
    work.look_among(self.items.size());
    const Value* found = find(self, *bound[0]);
    return found != nullptr ? *found : bound[1] != nullptr ? *bound[1] : Value(nullptr);
  }
  bind(name + "()", arguments, {});
  work.make_list(static_cast<double>(self.items.size()));
  if (name == "copy") return Value::dict(self.items);
  std::vector<Value> items;
  for (const auto& [key, value] : self.items) {
    if (name == "items") {
      items.push_back(Value::list({key, value}, ListForm::tuple));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  return Value::list(std::move(items), ListForm::view);
}

Value call_list_method(const List& self, const std::string& name, const CallArguments& arguments) {
  const Value& wanted = *bind(name + "()", arguments, {"value"}, 1)[0];
  const auto same = [&](const Value& one) { return equal(one, wanted); };
  if (name == "count")
    return Value(int64_t{std::count_if(self.items.begin(), self.items.end(), same)});
  const auto found = std::find_if(self.items.begin(), self.items.end(), same);
  if (found == self.items.end())
    refuse("a value that is in the list, for index()", described(wanted));
  return Value(int64_t{found - self.items.begin()});
}

template <class List>
bool is_listed(const List& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool is_method(const Value& self, std::string_view name) {
  if (self.text()) return find_text_method(name) != nullptr;
  if (self.dict()) return is_listed(dict_methods, name) || is_listed(changing_methods, name);
  if (self.loop()) return name == "cycle";
  const List* list = self.list();
  const bool has_items = list && list->form != ListForm::view && list->form != ListForm::generator;
  return has_items && (name == "index" || name == "count" || is_listed(changing_methods, name));
}

Value call_method(Work& work, const Value& self, const std::string& name,
                  const CallArguments& arguments) {
  work.spend(self.dict() ? 1 : self.weight());
  for (const Value& argument : arguments.positional) work.spend(argument.weight());
  if (const std::string* text = self.text()) return find_text_method(name)(work, *text, arguments);
  if (is_listed(changing_methods, name) && !(self.list() && name == "index"))
    refuse("methods that change nothing", name + "() of " + described(self));
  if (const Dict* dict = self.dict()) return call_dict_method(work, *dict, name, arguments);
  if (const List* list = self.list()) return call_list_method(*list, name, arguments);
  const Loop& loop = *self.loop();  // cycle
  if (arguments.positional.empty()) refuse("values for loop.cycle()", "none");
  const size_t count = arguments.positional.size();
  return arguments.positional[static_cast<size_t>(loop.index) % count];
}

}  // namespace binade::data::jinja
