#pragma once

#include <string>
#include <string_view>

#include "binade/data/tokenizer.h"
#include "binade/data/tokens.h"

namespace binade::data {

// The project's own sources and documents, as they were when the program was built.
std::string_view builtin_corpus();

// The text of a file, or of all text files below a folder in the order of their paths, or
// "builtin". Hidden files, links and files with zero bytes in them are passed over. Fails where
// nothing is left.
std::string read_text(const std::string& where);

// A text as tokens, two or four bytes each by the vocabulary (one for bytes).
Tokens tokenize(std::string text, const Tokenizer& tokenizer);

// What `where` names as one run of tokens: "builtin", a text file or a folder by the tokenizer
// (null: bytes); a file that ends in .bin, or a folder of them, as token files
// (data/token_file.h), which are mapped, in the order of their names. Ids of files are below
// `vocab`.
Tokens read_tokens(const std::string& where, int64_t vocab, const Tokenizer* tokenizer = nullptr);

// What to learn from, and how.
struct Source {
  std::string where;
  const Tokenizer* tokenizer = nullptr;
  int64_t vocab = 256;
  int64_t batch = 1, context = 1;  // a token file holds at least one batch
  double validation = 0.05;        // share
};

// The tokens of read_tokens, the last of them for validation. In a folder of token files that has
// some with "val" in their names, those are for validation instead.
Split read_split(const Source& source);

}  // namespace binade::data
