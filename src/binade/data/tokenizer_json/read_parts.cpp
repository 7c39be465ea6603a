#include "binade/data/tokenizer_json/read_parts.h"

#include <algorithm>

namespace binade::data {

using json::Value;

void expect_members(const Value& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.object()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string names;
    for (const std::string_view each : known)
      names += (names.empty() ? "" : ", ") + std::string(each);
    value.refuse("no members but " + names, json::in_quotes(name));
  }
}

const Value* optional_member(const Value& object, std::string_view name) {
  const Value* value = object.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool optional_flag(const Value& object, std::string_view name, bool otherwise) {
  const Value* value = optional_member(object, name);
  return value == nullptr ? otherwise : value->boolean();
}

const std::string& text_of(const Value& value) {
  if (value.string().empty()) value.refuse("a text", "an empty one");
  return value.string();
}

}  // namespace binade::data
