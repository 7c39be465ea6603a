#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "binade/data/chat/chat_template.h"
#include "binade/train/generate.h"

// What clients of the server ask for, read from the bodies of their requests. Bodies are not
// trusted.
namespace binade::serve {

// A request that is refused, with the HTTP status and the members of OpenAI's error object.
class RequestError : public std::runtime_error {
 public:
  RequestError(int status, const std::string& message, std::string param = {},
               std::string code = {})
      : std::runtime_error(message),
        status(status),
        param(std::move(param)),
        code(std::move(code)) {}

  std::string json() const;

  int status;
  std::string param, code;  // empty: null
};

using Prompt = std::variant<std::string, std::vector<int64_t>>;

// What completions and chat completions have in common.
struct TextRequest {
  int64_t count = 1;                       // texts per prompt
  std::optional<int64_t> max_tokens = {};  // none: the default of the kind of request
  // Temperature and so on; `tokens`, `seed` and `eos` are set by the service.
  train::GenerateOptions sampling = {.temperature = 1, .top_k = 0};
  std::optional<uint64_t> seed = {};
  std::vector<std::string> stops = {};
  bool stream = false, include_usage = false;
  std::optional<int64_t> top_logprobs = {};  // none: no log-probabilities
};

struct CompletionRequest {
  TextRequest text = {};
  std::vector<Prompt> prompts = {};
  bool echo = false;
};

struct ChatRequest {
  TextRequest text = {};
  std::vector<data::Message> messages = {};
};

// Ids of a prompt, or of a conversation up to the next answer.
struct TokenizeRequest {
  std::variant<std::string, std::vector<data::Message>> text = {};
  bool add_special_tokens = true;
};

// These throw a RequestError that says what is wrong. Members that they do not know are ignored;
// known ones that the server cannot honor are refused.
CompletionRequest parse_completion(std::string_view body, int64_t max_texts);
ChatRequest parse_chat(std::string_view body, int64_t max_texts);
TokenizeRequest parse_tokenize(std::string_view body);
std::vector<int64_t> parse_detokenize(std::string_view body);

}  // namespace binade::serve
