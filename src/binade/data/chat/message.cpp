#include "binade/data/chat/message.h"

#include <utility>

#include "binade/data/chat/jinja/from_json.h"

namespace binade::data {
namespace {

const jinja::Value* given_member(const jinja::Dict& message, std::string_view name) {
  const jinja::Value* found = jinja::find_member(message, name);
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

jinja::Value template_value(const Message& message) {
  const jinja::Dict* given = message.members.dict();
  if (given == nullptr)
    return jinja::Value::dict({{jinja::Value("role"), jinja::Value(message.role)},
                               {jinja::Value("content"), jinja::Value(message.content)}});
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const jinja::Value* found = given_member(*given, name);
    if (found == nullptr) continue;
    const jinja::Value reasoning = *found;
    std::vector<std::pair<jinja::Value, jinja::Value>> items;
    if (jinja::find_member(*given, "thinking") == nullptr)
      items.emplace_back("thinking", reasoning);
    items.insert(items.end(), given->items.begin(), given->items.end());
    jinja::put(items, jinja::Value("reasoning_content"), reasoning);
    return jinja::Value::dict(std::move(items));
  }
  return message.members;
}

}  // namespace binade::data
