#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/data/chat/jinja/template.h"
#include "binade/data/chat/message.h"

// Conversations as text, in the formats that models with chat templates were trained on.
namespace binade::data {

enum class ChatFormat : uint8_t { chatml, llama3, gemma, mistral };

// Texts of special tokens, from tokenizer_config.json.
struct SpecialTokens {
  std::string bos = {}, eos = {};                                // empty: none
  std::vector<std::pair<std::string, std::string>> others = {};  // by name, such as pad_token
};

// A template that writes conversations, with what it is given beside the messages.
struct ChatTemplate {
  std::shared_ptr<const jinja::Template> program;
  std::shared_ptr<const jinja::Template> tool_program = {};  // if there are tools; null: program
  SpecialTokens tokens = {};
  // Around an answer: what the template writes between a prompt for it and its content, and the
  // text that ends it, such as "<|im_end|>". Empty if there is none.
  std::string before_answer = {}, answer_end = {};
};

// The date of strftime_now() in training, which must not depend on the day: 26 July 2024, the one
// that Llama 3.1's template has.
std::tm training_date();

// The template that Binade has for a format.
ChatTemplate chat_template_of(ChatFormat format, const SpecialTokens& tokens);
// Its text, which transformers runs as well.
std::string_view jinja_of(ChatFormat format);

// A template by its Jinja text. Fails, as `file` with the line, for one that the interpreter
// (data/chat/jinja/) does not know.
ChatTemplate parse_chat_template(std::string_view jinja, const SpecialTokens& tokens,
                                 const std::string& file);

// The template of a model's folder: chat_template.jinja, else chat_template in
// tokenizer_config.json; none if there is neither. With a `format` that format is taken instead.
std::optional<ChatTemplate> read_chat_template(const std::filesystem::path& folder,
                                               std::optional<ChatFormat> format = {});

// The template beside a tokenizer as open_tokenizer() takes it; bytes have none.
std::optional<ChatTemplate> chat_template_beside(const std::string& tokenizer,
                                                 std::optional<ChatFormat> format = {});

struct RenderedChat {
  std::string text;
  // Ranges of bytes that the model should write itself: the assistant's messages with the token
  // that ends them, or what the template marks by {% generation %}.
  std::vector<std::pair<size_t, size_t>> answers = {};
};

// A conversation as transformers' apply_chat_template renders it, with its answers. Fails, as
// `where`, if the template refuses it or if its answers cannot be told from the rest (answers.h).
RenderedChat render(const ChatTemplate& chat, std::span<const Message> messages,
                    const std::string& where, const jinja::Value& tools = jinja::Value(nullptr));

// The text of a conversation up to the model's next answer, written at the time `now`:
// apply_chat_template with add_generation_prompt.
std::string render_prompt(const ChatTemplate& chat, std::span<const Message> messages,
                          const std::string& where, const std::tm& now);

}  // namespace binade::data
