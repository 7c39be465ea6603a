#pragma once

#include <string>
#include <vector>

#include "binade/data/tokenizer_json/added_tokens.h"
#include "binade/data/tokenizer_json/bpe.h"

namespace binade::data {

// A byte-level BPE tokenizer.
struct ByteLevelBpe {
  enum class Words : uint8_t { whole_text, gpt2, llama3 };  // whose split pattern

  std::vector<std::string> tokens;  // by id, bytes written as in byte_level.h; empty: none
  std::vector<MergeRule> merges = {};
  std::vector<AddedToken> added_tokens = {};
  Words words = Words::llama3;
};

// The text of its tokenizer.json, as the tokenizers package reads it.
std::string write_tokenizer_json(const ByteLevelBpe& tokenizer);

// The tokenizer.json of "bytes": every byte is a token, its value the id.
std::string byte_tokenizer_json();

}  // namespace binade::data
