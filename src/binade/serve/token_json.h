#pragma once

#include <optional>
#include <span>

#include "binade/base/json.h"
#include "binade/data/tokenizer.h"
#include "binade/train/log_probs.h"

namespace binade::serve {

// The log-probabilities of a text's tokens in the form of OpenAI's answers, in parts: each call
// writes the tokens that follow those of the call before.
class TokenJson {
 public:
  // `before`: the id that the first token follows in its text, if there is one.
  TokenJson(const data::Tokenizer& tokenizer, std::optional<int64_t> before)
      : tokenizer_(&tokenizer), before_(before) {}

  // `logprobs` of completions: lists of equal length. The prompt's first token, if given, has no
  // log-probability.
  void write_lists(std::optional<int64_t> first, std::span<const train::ScoredToken> tokens,
                   json::Writer& out);
  // `logprobs.content` of chat completions.
  void write_content(std::span<const train::ScoredToken> tokens, json::Writer& out);

 private:
  const data::Tokenizer* tokenizer_;
  std::optional<int64_t> before_;
  int64_t offset_ = 0;  // characters of the text so far
};

}  // namespace binade::serve
