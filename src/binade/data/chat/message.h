#pragma once

#include <string>
#include <vector>

#include "binade/base/json.h"
#include "binade/data/chat/jinja/value.h"

namespace binade::data {

// A message of a conversation.
struct Message {
  std::string role;     // "system", "user", "assistant", "tool", ...
  std::string content;  // empty if it is not a text
  // All of its members as they stand in a file, such as tool_calls; undefined: role and content.
  jinja::Value members = {};
};

// Fails for an object without a role.
Message message_of(const json::Value& value);

// What a template sees of a message. Of the members reasoning_content, thinking and reasoning,
// those that are missing are made from the others, as transformers does.
jinja::Value template_value(const Message& message);

}  // namespace binade::data
