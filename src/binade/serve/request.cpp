#include "binade/serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "binade/base/error.h"
#include "binade/base/json.h"

namespace binade::serve {
namespace {

using json::Value;

constexpr int64_t max_top_logprobs = 20;
constexpr int64_t max_id = std::numeric_limits<int32_t>::max();
constexpr size_t max_stops = 64, max_stop_bytes = 4096;
constexpr double max_temperature = 100;

// A member that is neither missing nor null.
const Value* given(const Value& object, std::string_view name) {
  const Value* value = object.find(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

bool flag(const Value& root, std::string_view name, bool otherwise = false) {
  const Value* value = given(root, name);
  return value != nullptr ? value->boolean() : otherwise;
}

int64_t integer_in(const Value& root, std::string_view name, int64_t low, int64_t high,
                   int64_t otherwise) {
  const Value* value = given(root, name);
  return value != nullptr ? value->integer(low, high) : otherwise;
}

double number_in(const Value& root, std::string_view name, double low, double high,
                 double otherwise) {
  const Value* value = given(root, name);
  if (value == nullptr) return otherwise;
  const double number = value->number();
  if (!(number >= low && number <= high))
    value->refuse(fmt::format("a number from {} to {}", low, high), fmt::format("{}", number));
  return number;
}

std::vector<int64_t> ids_of(const Value& array) {
  std::vector<int64_t> ids;
  ids.reserve(array.array().size());
  for (const Value& id : array.array()) ids.push_back(id.integer(0, max_id));
  return ids;
}

std::vector<Prompt> prompts_of(const Value& prompt, int64_t most) {
  std::vector<Prompt> prompts;
  if (prompt.is_string()) return {prompt.string()};
  const std::vector<Value>& items = prompt.array();
  if (items.empty()) prompt.refuse("a text, ids, or a list of these", "an empty list");
  if (!items[0].is_string() && !items[0].is_array()) return {ids_of(prompt)};
  if (std::cmp_greater(items.size(), most))
    prompt.refuse(fmt::format("at most {} prompts", most), fmt::format("{}", items.size()));
  for (const Value& item : items) {
    if (items[0].is_string()) {
      prompts.emplace_back(item.string());
    } else {
      prompts.emplace_back(ids_of(item));
    }
  }
  return prompts;
}

std::vector<std::string> stops_of(const Value& root) {
  std::vector<std::string> stops;
  const Value* stop = given(root, "stop");
  if (stop == nullptr) return stops;
  const auto add = [&](const Value& text) {
    if (text.string().size() > max_stop_bytes)
      text.refuse(fmt::format("at most {} bytes", max_stop_bytes), "more");
    if (!text.string().empty()) stops.push_back(text.string());
  };
  if (stop->is_string()) {
    add(*stop);
    return stops;
  }
  if (stop->array().size() > max_stops)
    stop->refuse(fmt::format("at most {} texts", max_stops), "more");
  for (const Value& text : stop->array()) add(text);
  return stops;
}

// Members that change the text in ways that the server does not know, unless they ask for nothing.
void refuse_unsupported(const Value& root) {
  for (const char* name : {"presence_penalty", "frequency_penalty"}) {
    if (const Value* value = given(root, name); value != nullptr && value->number() != 0)
      value->refuse("0: penalties are not supported", "another number");
  }
  for (const char* name : {"tools", "functions", "logit_bias", "suffix"}) {
    const Value* value = given(root, name);
    const bool is_empty = value == nullptr || (value->is_array() && value->array().empty()) ||
                          (value->is_object() && value->object().empty()) ||
                          (value->is_string() && value->string().empty());
    if (!is_empty) value->refuse("none: this is not supported", "one");
  }
  const Value* format = given(root, "response_format");
  if (format != nullptr && format->at("type").string() != "text")
    format->refuse("{\"type\": \"text\"}", "another one");
}

TextRequest common_of(const Value& root, int64_t most) {
  refuse_unsupported(root);
  TextRequest text;
  text.count = integer_in(root, "n", 1, most, 1);
  if (const Value* best = given(root, "best_of"); best != nullptr)
    best->integer(text.count, text.count);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (given(root, name) != nullptr) text.max_tokens = integer_in(root, name, 0, max_id, 0);
  }
  train::GenerateOptions& sampling = text.sampling;
  sampling.temperature = number_in(root, "temperature", 0, max_temperature, 1);
  sampling.top_p = number_in(root, "top_p", 0, 1, 1);
  if (sampling.top_p == 0) root.at("top_p").refuse("more than 0", "0");
  sampling.top_k = std::max<int64_t>(integer_in(root, "top_k", -1, max_id, 0), 0);
  sampling.repetition_penalty = number_in(root, "repetition_penalty", 0.01, 100, 1);
  if (const Value* seed = given(root, "seed"); seed != nullptr)
    text.seed = static_cast<uint64_t>(
        seed->integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  text.stops = stops_of(root);
  text.stream = flag(root, "stream");
  if (const Value* options = given(root, "stream_options"); options != nullptr)
    text.include_usage = flag(*options, "include_usage");
  return text;
}

// The text of a message: a string, or an array of parts that are texts.
std::string content_of(const Value& message) {
  const Value& content = message.at("content");
  if (content.is_null()) return {};
  if (content.is_string()) return content.string();
  std::string text;
  for (const Value& part : content.array()) {
    if (part.at("type").string() != "text")
      part.refuse("a part of type \"text\"", part.at("type").describe());
    text += part.at("text").string();
  }
  return text;
}

std::vector<data::Message> messages_of(const Value& root) {
  std::vector<data::Message> messages;
  for (const Value& message : root.at("messages").array()) {
    const std::string& role = message.at("role").string();
    messages.push_back({role == "developer" ? "system" : role, content_of(message)});
  }
  if (messages.empty()) root.at("messages").refuse("at least one message", "none");
  return messages;
}

// Calls read(root of the body), whose errors become refusals.
template <class F>
auto parse_body(std::string_view body, F read) {
  try {
    const json::Document document = json::parse(body, {.reader = "request", .file = "body"});
    if (!document.root().is_object())
      document.root().refuse("an object", document.root().describe());
    return read(document.root());
  } catch (const Error& error) {
    throw RequestError(400, error.what());
  }
}

}  // namespace

std::string RequestError::json() const {
  const char* type = status == 401   ? "authentication_error"
                     : status == 404 ? "not_found_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  json::Writer out;
  out.begin_object().key("error").begin_object().key("message").value(what());
  out.key("type").value(type).key("param");
  param.empty() ? out.value(nullptr) : out.value(param);
  out.key("code");
  code.empty() ? out.value(nullptr) : out.value(code);
  return out.end_object().end_object().text();
}

CompletionRequest parse_completion(std::string_view body, int64_t max_texts) {
  return parse_body(body, [&](const Value& root) {
    CompletionRequest request{.text = common_of(root, max_texts),
                              .prompts = prompts_of(root.at("prompt"), max_texts),
                              .echo = flag(root, "echo")};
    if (given(root, "logprobs") != nullptr)
      request.text.top_logprobs = integer_in(root, "logprobs", 0, max_top_logprobs, 0);
    const auto texts = static_cast<int64_t>(request.prompts.size()) * request.text.count;
    if (texts > max_texts)
      root.refuse(fmt::format("at most {} texts, prompts times n", max_texts),
                  fmt::format("{}", texts));
    return request;
  });
}

ChatRequest parse_chat(std::string_view body, int64_t max_texts) {
  return parse_body(body, [&](const Value& root) {
    ChatRequest request{.text = common_of(root, max_texts), .messages = messages_of(root)};
    const int64_t top = integer_in(root, "top_logprobs", 0, max_top_logprobs, 0);
    if (flag(root, "logprobs")) request.text.top_logprobs = top;
    return request;
  });
}

TokenizeRequest parse_tokenize(std::string_view body) {
  return parse_body(body, [&](const Value& root) {
    TokenizeRequest request;
    if (given(root, "messages") != nullptr) {
      request.text = messages_of(root);
      return request;
    }
    const Value* content = given(root, "content");  // llama.cpp's name
    request.text = (content != nullptr ? *content : root.at("prompt")).string();
    request.add_special_tokens =
        content != nullptr ? flag(root, "add_special") : flag(root, "add_special_tokens", true);
    return request;
  });
}

std::vector<int64_t> parse_detokenize(std::string_view body) {
  return parse_body(body, [](const Value& root) { return ids_of(root.at("tokens")); });
}

}  // namespace binade::serve
