#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Conversations as text, in the formats that models with chat templates were trained on.
namespace binade::data {

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

enum class ChatFormat : uint8_t { chatml, llama3, gemma, mistral };

// What becomes of a system message.
enum class SystemMessage : uint8_t {
  message,     // a message like the others
  first_user,  // it is put before the first message of the user
  refused,     // the template fails, or leaves it out before an answer
};

// A format, and what templates of that format differ in.
struct ChatTemplate {
  ChatFormat format = ChatFormat::chatml;
  SystemMessage system = SystemMessage::message;
  bool trims = false;               // messages lose white space at their ends; mistral: answers
  std::string bos = {}, eos = {};   // texts of the special tokens; bos is empty if it is not used
  std::string default_system = {};  // chatml: of conversations without a system message
  std::string dates = {};           // llama3: what every system message begins with
  std::string open = {}, close = {}, before_answer = {};  // mistral: around a user's message
};

// Texts of special tokens, from tokenizer_config.json.
struct SpecialTokens {
  std::string bos = {}, eos = {};
};

// The format with the options it has in most models.
ChatTemplate chat_template_of(ChatFormat format, const SpecialTokens& tokens);

// The Jinja template of chat_template_of(), for transformers.
std::string_view jinja_of(ChatFormat format);

// Recognizes a Jinja template, which is not run. Fails, as `file`, for a format that is none of
// these or that renders other text (reasoning, Llama 2, Zephyr, ...), naming it.
ChatTemplate recognize_chat_template(std::string_view jinja, const SpecialTokens& tokens,
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
  // that ends them.
  std::vector<std::pair<size_t, size_t>> answers = {};
};

// A conversation as transformers' apply_chat_template renders it. Fails, as `where`, for other
// roles and for an order of roles that the format does not have.
RenderedChat render(const ChatTemplate& chat, std::span<const Message> messages,
                    const std::string& where);

// The text that ends every answer; empty if the format has none.
std::string answer_end(const ChatTemplate& chat);

}  // namespace binade::data
