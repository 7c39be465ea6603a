#include "binade/data/chat/pairs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "binade/base/error.h"
#include "binade/data/chat/jinja/from_json.h"

namespace binade::data {
namespace {

[[noreturn]] void refuse_pair(const std::string& where, std::string expected, std::string found) {
  fail("data", {.argument = where,
                .expected = std::move(expected),
                .found = std::move(found),
                .hint = "docs/fine-tuning.md lists the forms of pairs"});
}

const json::Value& member(const json::Value& root, const char* name, const std::string& where) {
  const json::Value* found = root.find(name);
  if (found == nullptr)
    refuse_pair(where, "the members chosen and rejected, and prompt if they are texts",
                std::string("no ") + name);
  return *found;
}

bool is_same(const Message& a, const Message& b) {
  return a.role == b.role && a.content == b.content &&
         jinja::equal(template_value(a), template_value(b));
}

// An answer may be a call of tools instead of a text.
bool is_empty(const Message& message) {
  return message.content.empty() && message.members.is_undefined();
}

// The example of one answer, whose messages from `prompt` on are not the prompt's.
Example conversation_of(std::vector<Message> messages, size_t prompt, const char* name,
                        const std::string& where) {
  const bool has_answer = messages.size() > prompt && messages.back().role == "assistant";
  if (!has_answer || is_empty(messages.back()))
    refuse_pair(where, std::string(name) + " to end with an answer of the assistant",
                messages.size() == prompt ? "no messages"
                : has_answer              ? "an empty one"
                                          : "a message of the " + messages.back().role);
  const auto answers =
      std::count_if(messages.begin() + static_cast<ptrdiff_t>(prompt), messages.end(),
                    [](const Message& one) { return one.role == "assistant"; });
  return {.messages = std::move(messages), .last_answers = static_cast<size_t>(answers)};
}

std::vector<Message> messages_of(const json::Value* before, const json::Value& list) {
  std::vector<Message> messages;
  for (const json::Value* part : {before, &list}) {
    if (part == nullptr) continue;
    for (const json::Value& one : part->array()) messages.push_back(message_of(one));
  }
  return messages;
}

// The messages that both begin with: at most all but the last.
size_t shared_messages(const std::vector<Message>& a, const std::vector<Message>& b) {
  const size_t most = std::max<size_t>(std::min(a.size(), b.size()), 1) - 1;
  size_t count = 0;
  while (count < most && is_same(a[count], b[count])) ++count;
  return count;
}

Pair conversations(const json::Value& root, const std::string& where) {
  const json::Value* prompt = root.find("prompt");
  // A text beside whole conversations repeats what they begin with.
  if (prompt != nullptr && !prompt->is_array()) prompt = nullptr;
  std::vector<Message> chosen = messages_of(prompt, root.at("chosen")),
                       rejected = messages_of(prompt, root.at("rejected"));
  const size_t shared =
      prompt != nullptr ? prompt->array().size() : shared_messages(chosen, rejected);
  return {conversation_of(std::move(chosen), shared, "chosen", where),
          conversation_of(std::move(rejected), shared, "rejected", where)};
}

Pair texts(const json::Value& root, const std::string& where) {
  const std::string& prompt = member(root, "prompt", where).string();
  const auto text_of = [&](const char* name) {
    const std::string& text = root.at(name).string();
    if (text.empty()) refuse_pair(where, std::string(name) + " to be an answer", "an empty text");
    return Example{.prompt = prompt, .completion = text};
  };
  return {text_of("chosen"), text_of("rejected")};
}

}  // namespace

bool is_pair(const json::Value& root) {
  return root.find("chosen") != nullptr || root.find("rejected") != nullptr;
}

Pair parse_pair(const json::Value& root, const std::string& where) {
  const json::Value &chosen = member(root, "chosen", where),
                    &rejected = member(root, "rejected", where);
  if (chosen.is_array() != rejected.is_array())
    refuse_pair(where, "chosen and rejected alike: two texts or two lists of messages",
                chosen.describe() + " and " + rejected.describe());
  Pair pair = chosen.is_array() ? conversations(root, where) : texts(root, where);
  if (const json::Value* tools = root.find("tools"))
    pair.chosen.tools = pair.rejected.tools = jinja::value_of(*tools);
  return pair;
}

}  // namespace binade::data
