#include "binade/data/chat/chat_template.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/data/chat/answers.h"
#include "binade/data/chat/chat_files.h"
#include "binade/data/tokenizer.h"
#include "binade/io/gguf/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* chat_reader = "chat";

ChatTemplate with_answers(ChatTemplate chat) {
  set_answer_texts(chat);
  return chat;
}

}  // namespace

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
{%- if (message['role'] == 'assistant') != (loop.index0 % 2 == 1) or message['role'] not in ['user', 'assistant'] %}
{{- raise_exception('messages of user and assistant must alternate, the user first') }}
{%- endif %}
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
{%- if (message['role'] == 'assistant') != (loop.index0 % 2 == 1) or message['role'] not in ['user', 'assistant'] %}
{{- raise_exception('messages of user and assistant must alternate, the user first') }}
{%- endif %}
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

std::tm training_date() {
  std::tm date = {};
  date.tm_year = 124;
  date.tm_mon = 6;
  date.tm_mday = 26;
  date.tm_hour = 12;
  date.tm_wday = 5;
  date.tm_yday = 207;
  return date;
}

ChatTemplate parse_chat_template(std::string_view jinja, const SpecialTokens& tokens,
                                 const std::string& file) {
  return with_answers(
      {.program = std::make_shared<const jinja::Template>(jinja, file), .tokens = tokens});
}

ChatTemplate chat_template_of(ChatFormat format, const SpecialTokens& tokens) {
  return parse_chat_template(jinja_of(format), tokens, "Binade's chat template");
}

std::optional<ChatTemplate> read_chat_template(const fs::path& folder,
                                               std::optional<ChatFormat> format) {
  const ChatFiles files = read_chat_files(folder);
  if (format) return chat_template_of(*format, files.tokens);
  if (files.jinja.empty()) return {};
  ChatTemplate chat = parse_chat_template(files.jinja, files.tokens, files.source);
  if (!files.tool_jinja.empty())
    chat.tool_program =
        std::make_shared<const jinja::Template>(files.tool_jinja, files.source + " (tool_use)");
  return chat;
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

RenderedChat render(const ChatTemplate& chat, std::span<const Message> messages,
                    const std::string& where, const jinja::Value& tools) {
  try {
    return AnswerFinder(chat, messages, tools).find();
  } catch (const Error& error) {
    const Facts& facts = error.facts();
    fail(chat_reader, {.argument = where,
                       .expected = facts.expected,
                       .found = facts.found,
                       .hint = facts.hint.empty() ? "see " + facts.argument : facts.hint});
  }
}

std::string render_prompt(const ChatTemplate& chat, std::span<const Message> messages,
                          const std::string& where, const std::tm& now) {
  try {
    const ChatVariables variables(chat, messages, jinja::Value(nullptr));
    return variables.render(messages.size(), true, now).text;
  } catch (const Error& error) {
    fail(chat_reader, {.argument = where,
                       .expected = error.facts().expected,
                       .found = error.facts().found,
                       .hint = "see " + error.facts().argument});
  }
}

}  // namespace binade::data
