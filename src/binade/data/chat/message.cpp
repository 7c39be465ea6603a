#include "binade/data/chat/message.h"

#include <utility>

#include "binade/data/chat/jinja/from_json.h"

namespace binade::data {
namespace {

using jinja::Value;

const Value* given_member(const jinja::Dict& message, std::string_view name) {
  const Value* found = jinja::find_member(message, name);
  return found == nullptr || found->is_none() ? nullptr : found;
}

}  // namespace

Message message_of(const json::Value& value) {
  Message message{value.at("role").string(), {}};
  const json::Value* content = value.find("content");
  const bool is_plain = value.object().size() == 2 && content != nullptr && content->is_string();
  if (content != nullptr && content->is_string()) message.content = content->string();
  if (!is_plain) message.members = jinja::value_of(value);
  return message;
}

Value template_value(const Message& message) {
  const jinja::Dict* given = message.members.dict();
  if (given == nullptr)
    return Value::dict(
        {{Value("role"), Value(message.role)}, {Value("content"), Value(message.content)}});
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* found = given_member(*given, name);
    if (found == nullptr) continue;
    const Value reasoning = *found;
    std::vector<std::pair<Value, Value>> items;
    if (jinja::find_member(*given, "thinking") == nullptr)
      items.emplace_back("thinking", reasoning);
    items.insert(items.end(), given->items.begin(), given->items.end());
    jinja::put(items, Value("reasoning_content"), reasoning);
    return Value::dict(std::move(items));
  }
  return message.members;
}

}  // namespace binade::data
