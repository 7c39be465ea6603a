#include "binade/data/chat/chat_template.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/chat/chat_files.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/unicode.h"
#include "binade/io/gguf/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* chat_reader = "chat";
// Llama 3.1's template writes this date unless it is given another; 3.2's would write today's,
// which training must not depend on.
constexpr const char* llama31_dates =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What Python's str.strip() removes: white space, and the four separators before the space.
bool is_stripped(char32_t code) { return is_white_space(code) || (code >= 0x1C && code <= 0x1F); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const Character first = character_at(text, 0);
    if (!is_stripped(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while (!text.empty()) {
    const size_t last = character_before(text, text.size());
    if (!is_stripped(character_at(text, last).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

// Templates that contain a text, by the name of what they are for.
struct OtherTemplate {
  std::string_view part, name;
};
constexpr OtherTemplate other_templates[] = {
    {"<think>", "a template with reasoning (Qwen3, DeepSeek-R1)"},
    {"<<SYS>>", "Llama 2's"},
    {"[SYSTEM_PROMPT]", "Mistral's with system prompts (V7)"},
    {"<|header_start|>", "Llama 4's"},
    {"<|channel|>", "gpt-oss's"},
    {"<|assistant|>", "Zephyr's or Phi-3's"},
    {"<|im_sep|>", "Phi-4's"},
    {"<|START_OF_TURN_TOKEN|>", "Cohere's"},
    {"### Instruction", "Alpaca's"},
};

// The system message that ChatML templates such as Qwen2.5's have for conversations without one: a
// literal between the markers.
std::string default_system_of(std::string_view jinja) {
  for (const std::string_view newline : {"\\n", "\n"}) {
    const std::string begin = "<|im_start|>system" + std::string(newline);
    for (size_t at = jinja.find(begin); at != std::string_view::npos;
         at = jinja.find(begin, at + 1)) {
      const size_t from = at + begin.size(), to = jinja.find("<|im_end|>", from);
      if (to == std::string_view::npos) break;
      const std::string_view text = jinja.substr(from, to - from);
      if (!text.empty() && text.find_first_of("'\"{}") == std::string_view::npos)
        return std::string(text);
    }
  }
  return {};
}

ChatTemplate mistral_of(std::string_view jinja, const SpecialTokens& tokens) {
  ChatTemplate chat = chat_template_of(ChatFormat::mistral, tokens);
  const bool after_space = has(jinja, "' [INST]") || has(jinja, "\" [INST]");
  chat.open = after_space ? " [INST]" : "[INST]";
  if (has(jinja, "[INST] ")) chat.open += " ";
  chat.close = has(jinja, " [/INST]") ? " [/INST]" : "[/INST]";
  const bool spaced = has(jinja, "' ' + message") || has(jinja, "\" \" + message");
  chat.before_answer = spaced ? " " : "";
  chat.trims = has(jinja, "message[\"content\"]|trim") || has(jinja, "message['content']|trim");
  // Templates that put a system message before the last message, if it is the user's, lose it in a
  // conversation that ends with an answer.
  if (!has(jinja, "system") || has(jinja, "loop.last and system"))
    chat.system = SystemMessage::refused;
  return chat;
}

// Appends messages and remembers which bytes are answers.
class Renderer {
 public:
  void add(std::string_view text) { result_.text += text; }
  // A message's content with what ends it. The end belongs to an answer, what follows does not.
  void add_content(const Message& message, std::string_view end) {
    const size_t begin = result_.text.size();
    add(message.content);
    add(end);
    if (message.role == "assistant") result_.answers.emplace_back(begin, result_.text.size());
  }
  RenderedChat take() { return std::move(result_); }

 private:
  RenderedChat result_;
};

[[noreturn]] void refuse_messages(const std::string& where, std::string expected,
                                  std::string found) {
  fail(chat_reader,
       {.argument = where, .expected = std::move(expected), .found = std::move(found)});
}

void check_roles(const ChatTemplate& chat, std::span<const Message> messages,
                 const std::string& where) {
  const bool alternates = chat.format == ChatFormat::gemma || chat.format == ChatFormat::mistral;
  size_t turn = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant")
      refuse_messages(where, "the roles system, user and assistant", json::in_quotes(role));
    if (role == "system" && chat.system == SystemMessage::refused)
      refuse_messages(where, "no system message, which the model's chat template does not write",
                      "one");
    if (role == "system" && i > 0 && chat.system != SystemMessage::message)
      refuse_messages(where, "a system message at the beginning only", "one later");
    if (role == "system") continue;
    if (alternates && role != (turn % 2 == 0 ? "user" : "assistant"))
      refuse_messages(where, "messages of user and assistant in turn, the user's first",
                      "message " + std::to_string(i + 1) + " of the " + role);
    ++turn;
  }
}

// The messages as they are written: trimmed, and a system message that the format does not have as
// a part of one of the user's.
std::vector<Message> prepared(const ChatTemplate& chat, std::span<const Message> messages) {
  std::vector<Message> result(messages.begin(), messages.end());
  for (Message& message : result) {
    const bool trims = chat.format != ChatFormat::mistral || message.role == "assistant";
    if (chat.trims && trims) message.content = std::string(trimmed(message.content));
  }
  if (result.empty() || result[0].role != "system" || chat.system == SystemMessage::message)
    return result;
  result.erase(result.begin());
  const auto user = std::find_if(result.begin(), result.end(),
                                 [](const Message& one) { return one.role == "user"; });
  if (user != result.end()) user->content = messages[0].content + "\n\n" + user->content;
  return result;
}

// The name of a known template that is none of the formats; empty if there is none.
std::string_view other_template(std::string_view jinja) {
  for (const OtherTemplate& other : other_templates) {
    if (has(jinja, other.part)) return other.name;
  }
  return {};
}

[[noreturn]] void refuse_template(const std::string& file, std::string_view name) {
  fail(chat_reader,
       {.argument = file,
        .expected = "a chat template of the formats chatml, llama3, gemma or mistral",
        .found = std::string(name),
        .hint = "give one of these formats instead (train: --chat, generate: --chat-format), or "
                "render conversations with transformers' apply_chat_template and train on the "
                "text"});
}

}  // namespace

ChatTemplate chat_template_of(ChatFormat format, const SpecialTokens& tokens) {
  switch (format) {
    case ChatFormat::chatml:
      return {.format = format, .eos = tokens.eos};
    case ChatFormat::llama3:
      return {.format = format, .trims = true, .bos = tokens.bos, .eos = tokens.eos};
    case ChatFormat::gemma:
      return {.format = format,
              .system = SystemMessage::first_user,
              .trims = true,
              .bos = tokens.bos,
              .eos = tokens.eos};
    case ChatFormat::mistral:
      return {.format = format,
              .system = SystemMessage::first_user,
              .bos = tokens.bos,
              .eos = tokens.eos,
              .open = "[INST] ",
              .close = " [/INST]"};
  }
  fail(chat_reader, {.argument = "format", .expected = "a known one", .found = "another"});
}

std::string_view jinja_of(ChatFormat format) {
  switch (format) {
    case ChatFormat::chatml:
      return R"({% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
)";
    case ChatFormat::llama3:
      return R"({{ bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
{{- message['content'] | trim }}
{{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
)";
    case ChatFormat::gemma:
      return R"({{ bos_token }}
{%- set system = messages[0]['role'] == 'system' %}
{%- for message in messages[1 if system else 0:] %}
{{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' }}
{{- messages[0]['content'] + '\n\n' if system and loop.first else '' }}
{{- message['content'] | trim }}
{{- '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}
)";
    case ChatFormat::mistral:
      return R"({{ bos_token }}
{%- set system = messages[0]['role'] == 'system' %}
{%- for message in messages[1 if system else 0:] %}
{%- if message['role'] == 'user' %}
{{- '[INST] ' + (messages[0]['content'] + '\n\n' if system and loop.first else '') }}
{{- message['content'] + ' [/INST]' }}
{%- else %}
{{- message['content'] }}
{{- eos_token }}
{%- endif %}
{%- endfor %}
)";
  }
  return {};
}

ChatTemplate recognize_chat_template(std::string_view jinja, const SpecialTokens& tokens,
                                     const std::string& file) {
  if (const std::string_view other = other_template(jinja); !other.empty())
    refuse_template(file, other);
  ChatTemplate chat;
  if (has(jinja, "<|im_start|>") && has(jinja, "<|im_end|>")) {
    chat = chat_template_of(ChatFormat::chatml, tokens);
    chat.default_system = default_system_of(jinja);
    chat.bos = tokens.bos;
  } else if (has(jinja, "<|start_header_id|>") && has(jinja, "<|eot_id|>")) {
    chat = chat_template_of(ChatFormat::llama3, tokens);
    if (has(jinja, "Cutting Knowledge Date")) chat.dates = llama31_dates;
  } else if (has(jinja, "<start_of_turn>") && has(jinja, "<end_of_turn>")) {
    chat = chat_template_of(ChatFormat::gemma, tokens);
    if (has(jinja, "System role not supported")) chat.system = SystemMessage::refused;
  } else if (has(jinja, "[INST]") && has(jinja, "[/INST]")) {
    chat = mistral_of(jinja, tokens);
  } else {
    refuse_template(file, "another one");
  }
  if (!has(jinja, "bos_token")) chat.bos.clear();
  return chat;
}

std::optional<ChatTemplate> read_chat_template(const fs::path& folder,
                                               std::optional<ChatFormat> format) {
  const ChatFiles files = read_chat_files(folder);
  if (format) return chat_template_of(*format, files.tokens);
  if (files.jinja.empty()) return {};
  return recognize_chat_template(files.jinja, files.tokens, files.source);
}

std::optional<ChatTemplate> chat_template_beside(const std::string& tokenizer,
                                                 std::optional<ChatFormat> format) {
  if (tokenizer == byte_tokenizer)
    return format ? std::optional(chat_template_of(*format, {})) : std::nullopt;
  std::error_code ignored;
  const fs::path path = tokenizer;
  const bool is_model = fs::is_directory(path, ignored) || io::gguf::is_gguf(path);
  return read_chat_template(is_model ? path : path.parent_path(), format);
}

RenderedChat render(const ChatTemplate& chat, std::span<const Message> given,
                    const std::string& where) {
  check_roles(chat, given, where);
  const std::vector<Message> messages = prepared(chat, given);
  Renderer out;
  out.add(chat.bos);
  const bool has_system = !messages.empty() && messages[0].role == "system";
  if (!has_system && !chat.default_system.empty())
    out.add("<|im_start|>system\n" + chat.default_system + "<|im_end|>\n");
  if (!has_system && !chat.dates.empty())
    out.add("<|start_header_id|>system<|end_header_id|>\n\n" + chat.dates + "<|eot_id|>");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool answer = message.role == "assistant";
    switch (chat.format) {
      case ChatFormat::chatml:
        out.add("<|im_start|>" + message.role + "\n");
        out.add_content(message, "<|im_end|>");
        out.add("\n");
        break;
      case ChatFormat::llama3:
        out.add("<|start_header_id|>" + message.role + "<|end_header_id|>\n\n");
        if (i == 0 && has_system) out.add(chat.dates);
        out.add_content(message, "<|eot_id|>");
        break;
      case ChatFormat::gemma:
        out.add("<start_of_turn>" + std::string(answer ? "model" : "user") + "\n");
        out.add_content(message, "<end_of_turn>");
        out.add("\n");
        break;
      case ChatFormat::mistral:
        out.add(answer ? chat.before_answer : chat.open);
        out.add_content(message, answer ? chat.eos : chat.close);
        break;
    }
  }
  return out.take();
}

std::string answer_end(const ChatTemplate& chat) {
  const Message messages[] = {{"user", ""}, {"assistant", ""}};
  const RenderedChat rendered = render(chat, messages, chat_reader);
  const auto [begin, end] = rendered.answers.back();
  return rendered.text.substr(begin, end - begin);
}

}  // namespace binade::data
