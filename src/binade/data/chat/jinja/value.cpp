#include "binade/data/chat/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/python_text.h"

namespace binade::data::jinja {
namespace {

int checked_depth(int depth) {
  if (depth > max_value_depth)
    refuse("lists and dicts of at most " + std::to_string(max_value_depth) + " levels", "more");
  return depth;
}

int64_t checked_weight(int64_t weight) {
  if (weight > max_weight)
    refuse("lists and dicts of at most " + std::to_string(max_weight) + " values", "more");
  return weight;
}

[[noreturn]] void refuse_order(const Value& a, const Value& b) {
  refuse("values that can be ordered", described(a) + " and " + described(b));
}

int sign_of(bool less, bool more) { return less ? -1 : more ? 1 : 0; }

// Items at most one of which may be looked at twice.
const std::vector<Value>& used_items(const List& list) {
  static const std::vector<Value> none;
  if (list.form != ListForm::generator) return list.items;
  return std::exchange(list.used, true) ? none : list.items;
}

bool equal_lists(const List& a, const List& b) {
  const bool has_values = a.form == ListForm::list || a.form == ListForm::tuple;
  if (a.form != b.form || (!has_values && a.form != ListForm::range)) return &a == &b;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  const bool same_order =
      std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                 [](const auto& x, const auto& y) { return equal(x.first, y.first); });
  if (same_order)
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                      [](const auto& x, const auto& y) { return equal(x.second, y.second); });
  if (a.items.size() > max_unordered)
    refuse("dicts of at most " + std::to_string(max_unordered) + " members to compare",
           std::to_string(a.items.size()));
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
    const Value* other = find(b, item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

}  // namespace

void refuse(std::string expected, std::string found) {
  throw Refusal{std::move(expected), std::move(found)};
}

Value Value::list(std::vector<Value> items, ListForm form) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) {
    list->depth = std::max(list->depth, item.depth());
    list->weight = checked_weight(list->weight + item.weight());
  }
  list->depth = checked_depth(list->depth + 1);
  list->items = std::move(items);
  list->form = form;
  Value value;
  value.data_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, item] : items) {
    dict->depth = std::max({dict->depth, key.depth(), item.depth()});
    dict->weight = checked_weight(dict->weight + key.weight() + item.weight());
  }
  dict->depth = checked_depth(dict->depth + 1);
  dict->items = std::move(items);
  Value value;
  value.data_ = std::shared_ptr<const Dict>(std::move(dict));
  return value;
}

Value Value::markup(Text text) {
  Value value(std::move(text));
  value.is_markup_ = true;
  return value;
}

const std::string* Value::text() const {
  const Text* text = std::get_if<Text>(&data_);
  return text != nullptr ? text->get() : nullptr;
}

const List* Value::list() const {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&data_);
  return list != nullptr ? list->get() : nullptr;
}

const Dict* Value::dict() const {
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return dict != nullptr ? dict->get() : nullptr;
}

Namespace* Value::names() const {
  const auto* names = std::get_if<std::shared_ptr<Namespace>>(&data_);
  return names != nullptr ? names->get() : nullptr;
}

const Loop* Value::loop() const {
  const auto* loop = std::get_if<std::shared_ptr<Loop>>(&data_);
  return loop != nullptr ? loop->get() : nullptr;
}

int Value::depth() const {
  if (const List* items = list()) return items->depth;
  if (const Dict* items = dict()) return items->depth;
  if (const auto* method = std::get_if<std::shared_ptr<const Method>>(&data_))
    return (*method)->self.depth() + 1;
  return 0;
}

int64_t Value::weight() const {
  if (const std::string* string = text()) return 1 + static_cast<int64_t>(string->size() / 16);
  if (const List* items = list()) return 1 + items->weight;
  if (const Dict* items = dict()) return 1 + items->weight;
  return 1;
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return as_double() != 0;
  if (const std::string* string = text()) return !string->empty();
  if (const List* items = list())
    return items->form == ListForm::generator || !items->items.empty();
  if (const Dict* items = dict()) return !items->items.empty();
  return true;
}

std::string described(const Value& value) {
  if (const auto* undefined = std::get_if<Undefined>(&value.data()))
    return undefined->name ? "undefined " + json::in_quotes(*undefined->name) : "undefined";
  if (value.is_none()) return "None";
  if (value.boolean()) return *value.boolean() ? "True" : "False";
  if (value.integer()) return "the integer " + std::to_string(*value.integer());
  if (value.real()) return "the number " + float_text(*value.real());
  if (value.text()) return "the text " + json::in_quotes(*value.text());
  if (const List* list = value.list()) {
    static constexpr const char* forms[] = {"a list", "a tuple", "a range", "a view of a dict",
                                            "a generator"};
    return forms[static_cast<size_t>(list->form)];
  }
  if (value.dict()) return "a dict";
  if (value.names()) return "a namespace";
  return value.loop() ? "the variable loop" : "a function";
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
    return a.as_double() == b.as_double();
  }
  if (a.data().index() != b.data().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (a.text()) return *a.text() == *b.text();
  if (a.list()) return equal_lists(*a.list(), *b.list());
  if (a.dict()) return equal_dicts(*a.dict(), *b.dict());
  if (a.names()) return a.names() == b.names();
  if (const auto* macro = std::get_if<const Macro*>(&a.data()))
    return *macro == std::get<const Macro*>(b.data());
  return false;
}

int compare(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return sign_of(a.whole() < b.whole(), a.whole() > b.whole());
  if (a.is_number() && b.is_number()) {
    const double x = a.as_double(), y = b.as_double();
    if (std::isnan(x) || std::isnan(y)) refuse_order(a, b);
    return sign_of(x<y, x> y);
  }
  if (a.text() && b.text()) {  // the order of UTF-8's bytes is that of code points
    const int order = a.text()->compare(*b.text());
    return sign_of(order<0, order> 0);
  }
  const List *x = a.list(), *y = b.list();
  const bool ordered =
      x && y && x->form == y->form && (x->form == ListForm::list || x->form == ListForm::tuple);
  if (!ordered) refuse_order(a, b);
  for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!equal(x->items[i], y->items[i])) return compare(x->items[i], y->items[i]);
  }
  return sign_of(x->items.size() < y->items.size(), x->items.size() > y->items.size());
}

bool contains(const Value& values, const Value& item) {
  if (const std::string* text = values.text()) {
    if (!item.text()) refuse("a text to look for in a text", described(item));
    return text->find(*item.text()) != std::string::npos;
  }
  if (const Dict* dict = values.dict()) return find(*dict, item) != nullptr;
  if (const List* list = values.list()) {
    const std::vector<Value>& items = used_items(*list);
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& one) { return equal(one, item); });
  }
  if (values.is_undefined()) return false;
  refuse("a text, list or dict to look into", described(values));
}

const Value* find(const Dict& dict, const Value& key) {
  if (key.list() ? key.list()->form == ListForm::list : key.dict() != nullptr)
    refuse("a key that cannot change", described(key));
  for (const auto& [name, value] : dict.items) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* find_member(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.items) {
    if (name.text() && *name.text() == key) return &value;
  }
  return nullptr;
}

void put(std::vector<std::pair<Value, Value>>& items, Value key, Value value) {
  if (key.list() ? key.list()->form == ListForm::list : key.dict() != nullptr)
    refuse("a key that cannot change", described(key));
  for (auto& [name, old] : items) {
    if (equal(name, key)) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(std::move(key), std::move(value));
}

int64_t item_count(const Value& value) {
  if (const List* list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->items.size());
  return value.text() ? static_cast<int64_t>(value.text()->size()) : 0;
}

std::vector<Value> items_of(const Value& value) {
  if (const List* list = value.list()) return used_items(*list);
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    for (const auto& item : dict->items) items.push_back(item.first);
  } else if (const std::string* text = value.text()) {
    if (std::cmp_greater(text->size(), max_weight))
      refuse("a text of at most " + std::to_string(max_weight) + " bytes to loop over",
             std::to_string(text->size()));
    for (size_t at = 0; at < text->size();) {
      const size_t bytes = character_at(*text, at).bytes;
      items.emplace_back(text->substr(at, bytes));
      at += bytes;
    }
  } else if (!value.is_undefined()) {
    refuse("a list, dict or text to loop over", described(value));
  }
  return items;
}

int64_t length_of(const Value& value) {
  if (const std::string* text = value.text()) return characters_in(*text);
  if (const List* list = value.list(); list && list->form != ListForm::generator)
    return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->items.size());
  if (value.is_undefined()) return 0;
  if (const Loop* loop = value.loop()) return static_cast<int64_t>(loop->items->size());
  refuse("a value with a length", described(value));
}

}  // namespace binade::data::jinja
