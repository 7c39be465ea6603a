#include "binade/data/chat/jinja/sequence_filters.h"

#include <algorithm>
#include <utility>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data::jinja {
namespace {

using Args = const CallArguments&;

std::vector<Value> spent_items(Work& work, const Value& value) {
  work.spend(value.weight());
  return work.items(value);
}

// The attribute that a dotted path such as "function.name" or "0.id" leads to.
Value attribute_at(Work& work, const Value& value, const Value& path) {
  if (!path.text()) return item_of(value, path);
  work.spend(static_cast<int64_t>(path.text()->size()));
  Value found = value;
  for (const std::string_view part : split(*path.text(), ".", -1)) {
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    const auto index = is_number ? integer_of(part, 10) : std::nullopt;
    if (found.text()) work.spend(found.weight());
    found = item_of(found, index ? Value(*index) : Value(part));
  }
  return found;
}

// What sorting, unique and the like compare: an attribute, in lower case unless case counts.
Value key_of(Work& work, const Value& item, const Value* attribute, bool case_sensitive) {
  const bool by_attribute = attribute != nullptr && !attribute->is_none();
  const Value value = by_attribute ? attribute_at(work, item, *attribute) : item;
  work.spend(value.weight());
  return case_sensitive || !value.text() ? value : Value(lower(*value.text()));
}

CallArguments without_first(Args arguments, size_t count) {
  CallArguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

struct Selection {
  bool by_attribute, keeps;
};

// What select and map take: everything that is false has no items.
std::vector<Value> items_to_select(Work& work, const Value& value) {
  return value.is_true() ? spent_items(work, value) : std::vector<Value>();
}

Value selected(Work& work, const Value& value, Args arguments, Selection how) {
  const size_t before = how.by_attribute ? 1 : 0;
  if (how.by_attribute && arguments.positional.empty()) refuse("an attribute to select by", "none");
  const bool has_test = arguments.positional.size() > before;
  const Test test =
      has_test ? test_of(text_argument(arguments.positional[before], "a test")) : nullptr;
  const CallArguments rest = has_test ? without_first(arguments, before + 1) : CallArguments();
  std::vector<Value> kept;
  for (const Value& item : items_to_select(work, value)) {
    const Value tested =
        how.by_attribute ? attribute_at(work, item, arguments.positional[0]) : item;
    const bool passes = test != nullptr ? test(work, tested, rest) : tested.is_true();
    if (passes == how.keeps) kept.push_back(item);
  }
  return Value::list(std::move(kept), ListForm::generator);
}

// Sorts and takes the work of comparing into account.
template <class Item, class Key>
void sort_by(Work& work, std::vector<Item>& items, bool reverse, Key key) {
  std::vector<std::pair<Value, Item>> keyed;
  for (Item& item : items) {
    Value made = key(item);
    work.spend(made.weight() * 20);
    keyed.emplace_back(std::move(made), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  for (size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
}

Value extreme(Work& work, const Value& value, Args arguments, int sign) {
  const auto bound = bind("min", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound[0] && bound[0]->is_true();
  const std::vector<Value> items = spent_items(work, value);
  if (items.empty()) return Value(Undefined{});
  size_t best = 0;
  Value best_key = key_of(work, items[0], bound[1], case_sensitive);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(work, items[i], bound[1], case_sensitive);
    if (compare(key, best_key) * sign >= 0) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

}  // namespace

Value join_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("join", arguments, {"d", "attribute"});
  const std::string between = bound[0] != nullptr ? str(*bound[0]) : "";
  const bool by_attribute = bound[1] != nullptr && !bound[1]->is_none();
  std::string out;
  bool first = true;
  for (const Value& item : spent_items(work, value)) {
    if (!std::exchange(first, false)) out += between;
    const std::string text = str(by_attribute ? attribute_at(work, item, *bound[1]) : item);
    out += text;
    work.make_text(static_cast<double>(between.size() + text.size()));
    if (std::cmp_greater(out.size(), max_text)) work.make_text(static_cast<double>(out.size()));
  }
  return Value(std::move(out));
}

Value first_filter(Work& work, const Value& value, Args arguments) {
  bind("first", arguments, {});
  const std::vector<Value> items = spent_items(work, value);
  return items.empty() ? Value(Undefined{}) : items.front();
}

Value last_filter(Work& work, const Value& value, Args arguments) {
  bind("last", arguments, {});
  if (value.list() && value.list()->form == ListForm::generator)
    refuse("a list for last; the filter list makes one", described(value));
  const std::vector<Value> items = spent_items(work, value);
  return items.empty() ? Value(Undefined{}) : items.back();
}

Value list_filter(Work& work, const Value& value, Args arguments) {
  bind("list", arguments, {});
  return Value::list(spent_items(work, value));
}

Value map_filter(Work& work, const Value& value, Args arguments) {
  std::vector<Value> made;
  const bool by_attribute = arguments.positional.empty();
  if (by_attribute) {
    const auto bound = bind("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : items_to_select(work, value)) {
      const Value found = attribute_at(work, item, *bound[0]);
      made.push_back(found.is_undefined() && bound[1] != nullptr ? *bound[1] : found);
    }
  } else {
    const Filter filter = filter_of(text_argument(arguments.positional[0], "map"));
    const CallArguments rest = without_first(arguments, 1);
    for (const Value& item : items_to_select(work, value)) {
      work.spend(1);
      made.push_back(filter(work, item, rest));
    }
  }
  return Value::list(std::move(made), ListForm::generator);
}

Value select_filter(Work& work, const Value& value, Args arguments) {
  return selected(work, value, arguments, {.by_attribute = false, .keeps = true});
}
Value reject_filter(Work& work, const Value& value, Args arguments) {
  return selected(work, value, arguments, {.by_attribute = false, .keeps = false});
}
Value selectattr_filter(Work& work, const Value& value, Args arguments) {
  return selected(work, value, arguments, {.by_attribute = true, .keeps = true});
}
Value rejectattr_filter(Work& work, const Value& value, Args arguments) {
  return selected(work, value, arguments, {.by_attribute = true, .keeps = false});
}

Value sort_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound[1] && bound[1]->is_true();
  std::vector<Value> items = spent_items(work, value);
  sort_by(work, items, bound[0] && bound[0]->is_true(),
          [&](const Value& item) { return key_of(work, item, bound[2], case_sensitive); });
  return Value::list(std::move(items));
}

Value dictsort_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!value.dict()) refuse("a dict for dictsort", described(value));
  const std::string by = bound[1] != nullptr ? text_argument(*bound[1], "dictsort") : "key";
  if (by != "key" && by != "value") refuse("key or value for dictsort", json::in_quotes(by));
  auto items = value.dict()->items;
  sort_by(work, items, bound[2] && bound[2]->is_true(), [&](const auto& item) {
    return key_of(work, by == "key" ? item.first : item.second, nullptr,
                  bound[0] && bound[0]->is_true());
  });
  std::vector<Value> pairs;
  for (const auto& [key, item] : items) pairs.push_back(Value::list({key, item}, ListForm::tuple));
  return Value::list(std::move(pairs));
}

Value unique_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> seen;
  std::vector<Value> kept;
  for (const Value& item : spent_items(work, value)) {
    Value key = key_of(work, item, bound[1], bound[0] && bound[0]->is_true());
    work.spend(static_cast<int64_t>(seen.size()) + key.weight());
    const size_t before = seen.size();
    put(seen, std::move(key), Value(nullptr));
    if (seen.size() > before) kept.push_back(item);
  }
  return Value::list(std::move(kept), ListForm::generator);
}

Value reverse_filter(Work& work, const Value& value, Args arguments) {
  bind("reverse", arguments, {});
  if (value.is_undefined() || (value.list() && value.list()->form == ListForm::generator))
    refuse("a list or text for reverse", described(value));
  std::vector<Value> items = spent_items(work, value);
  std::reverse(items.begin(), items.end());
  if (!value.text()) return Value::list(std::move(items), ListForm::generator);
  std::string text;
  for (const Value& item : items) text += *item.text();
  return Value(std::move(text));
}

Value sum_filter(Work& work, const Value& value, Args arguments) {
  const auto bound = bind("sum", arguments, {"attribute", "start"});
  Value sum = bound[1] != nullptr ? *bound[1] : Value(int64_t{0});
  if (sum.text()) refuse("a start other than a text for sum", described(sum));
  const bool by_attribute = bound[0] != nullptr && !bound[0]->is_none();
  for (const Value& item : spent_items(work, value))
    sum = add(work, sum, by_attribute ? attribute_at(work, item, *bound[0]) : item);
  return sum;
}

Value min_filter(Work& work, const Value& value, Args arguments) {
  return extreme(work, value, arguments, 1);
}
Value max_filter(Work& work, const Value& value, Args arguments) {
  return extreme(work, value, arguments, -1);
}

Value attr_filter(Work&, const Value& value, Args arguments) {
  const std::string& name = text_argument(*bind("attr", arguments, {"name"}, 1)[0], "attr");
  // Attributes, not items: of the values here only namespaces, loops and methods have any.
  if (value.dict() && !is_method(value, name))
    return Value(Undefined{std::make_shared<const std::string>(name)});
  return attribute_of(value, name);
}

}  // namespace binade::data::jinja
