#include "binade/serve/token_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "binade/base/text.h"
#include "binade/data/token_text.h"

namespace binade::serve {
namespace {

bool is_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8_length(bytes, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

// A token's bytes in JSON: OpenAI writes those of a part of a character as "bytes:\xe2\x82".
std::string shown(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

int64_t characters_begun(std::string_view bytes) {
  return std::ranges::count_if(bytes, [](char byte) { return (byte & 0xC0) != 0x80; });
}

using LogProbsByText = std::vector<std::pair<std::string, double>>;

// A token of the lists; the first of a prompt has no log-probability.
struct Listed {
  std::string bytes;
  int64_t offset;
  std::optional<double> log_prob = {};
  LogProbsByText top = {};
};

// The most likely tokens by their text; of those with one text the most likely.
LogProbsByText by_text(const data::Tokenizer& tokenizer, std::optional<int64_t> before,
                       const train::ScoredToken& token) {
  LogProbsByText texts;
  const auto add = [&](int64_t id, float log_prob) {
    const std::string text = shown(data::token_text(tokenizer, before, id));
    const auto same =
        std::ranges::find_if(texts, [&](const auto& other) { return other.first == text; });
    if (same == texts.end()) {
      texts.emplace_back(text, train::finite(log_prob));
    } else {
      same->second = std::max(same->second, train::finite(log_prob));
    }
  };
  for (const auto& [id, log_prob] : token.top) add(id, log_prob);
  add(token.id, token.log_prob);
  return texts;
}

json::Writer& write_top(const LogProbsByText& top, json::Writer& out) {
  out.begin_object();
  for (const auto& [text, log_prob] : top) out.key(text).value(log_prob);
  return out.end_object();
}

void write_token(std::string_view bytes, float log_prob, json::Writer& out) {
  out.key("token").value(shown(bytes)).key("logprob").value(train::finite(log_prob));
  out.key("bytes").begin_array();
  for (const char byte : bytes) out.value(static_cast<int>(static_cast<unsigned char>(byte)));
  out.end_array();
}

}  // namespace

void TokenJson::write_lists(std::optional<int64_t> first,
                            std::span<const train::ScoredToken> tokens, json::Writer& out) {
  std::vector<Listed> list;
  const auto add = [&](const train::ScoredToken& token, bool is_scored) {
    Listed one{.bytes = data::token_text(*tokenizer_, before_, token.id), .offset = offset_};
    if (is_scored) one.log_prob = train::finite(token.log_prob);
    if (is_scored) one.top = by_text(*tokenizer_, before_, token);
    offset_ += characters_begun(one.bytes);
    before_ = token.id;
    list.push_back(std::move(one));
  };
  if (first) add({.id = *first}, false);
  for (const train::ScoredToken& token : tokens) add(token, true);

  out.begin_object().key("tokens").begin_array();
  for (const Listed& one : list) out.value(shown(one.bytes));
  out.end_array().key("token_logprobs").begin_array();
  for (const Listed& one : list) one.log_prob ? out.value(*one.log_prob) : out.value(nullptr);
  out.end_array().key("top_logprobs").begin_array();
  for (const Listed& one : list) one.log_prob ? write_top(one.top, out) : out.value(nullptr);
  out.end_array().key("text_offset").begin_array();
  for (const Listed& one : list) out.value(one.offset);
  out.end_array().end_object();
}

void TokenJson::write_content(std::span<const train::ScoredToken> tokens, json::Writer& out) {
  out.begin_object().key("content").begin_array();
  for (const train::ScoredToken& token : tokens) {
    out.begin_object();
    write_token(data::token_text(*tokenizer_, before_, token.id), token.log_prob, out);
    out.key("top_logprobs").begin_array();
    for (const auto& [id, log_prob] : token.top) {
      out.begin_object();
      write_token(data::token_text(*tokenizer_, before_, id), log_prob, out);
      out.end_object();
    }
    out.end_array().end_object();
    before_ = token.id;
  }
  out.end_array().end_object();
}

}  // namespace binade::serve
