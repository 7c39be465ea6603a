#include "binade/data/chat/jinja/from_json.h"

#include <limits>

namespace binade::data::jinja {
Value value_of(const json::Value& value) {
  if (value.is_null()) return Value(nullptr);
  if (value.is_string()) return Value(value.string());
  if (value.is_array()) {
    std::vector<Value> items;
    items.reserve(value.array().size());
    for (const json::Value& item : value.array()) items.push_back(value_of(item));
    return Value::list(std::move(items));
  }
  if (value.is_boolean()) return Value(value.boolean());
  if (value.is_integer())
    return Value(
        value.integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  if (!value.is_object()) return Value(value.number());
  std::vector<std::pair<Value, Value>> items;
  items.reserve(value.object().size());
  for (const auto& [name, item] : value.object()) items.emplace_back(Value(name), value_of(item));
  return Value::dict(std::move(items));
}

}  // namespace binade::data::jinja
