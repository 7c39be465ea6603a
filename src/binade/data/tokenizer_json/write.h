#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/base/json.h"
#include "binade/data/tokenizer_json/added_tokens.h"
#include "binade/data/tokenizer_json/bpe.h"

namespace binade::data {

// A special token that begins every text.
struct BeginningToken {
  std::string text;
  int64_t id = 0;
};

// A byte-level BPE tokenizer.
struct ByteLevelBpe {
  // Whose split pattern; digits_gpt2: every digit is a word, GPT-2's pattern splits the rest.
  enum class Words : uint8_t { whole_text, gpt2, llama3, qwen2, digits_gpt2 };

  std::vector<std::string> tokens;  // by id, bytes written as in byte_level.h; empty: none
  std::vector<MergeRule> merges = {};
  std::vector<AddedToken> added_tokens = {};
  Words words = Words::llama3;
  bool ignore_merges = false;                // a word that is a token is that token
  bool nfc = false;                          // texts are normalized first
  std::optional<BeginningToken> begin = {};  // of every text
};

// A post-processor that puts a token in front of every text.
void write_bos_template(json::Writer& out, const BeginningToken& token);

// The text of its tokenizer.json, as the tokenizers package reads it.
std::string write_tokenizer_json(const ByteLevelBpe& tokenizer);

// The tokenizer.json of "bytes": every byte is a token, its value the id.
std::string byte_tokenizer_json();

}  // namespace binade::data
