#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "binade/data/chat/chat_template.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokens.h"

namespace binade::data {

// The project's own sources and documents, as they were when the program was built, and the name
// they have as a source of text.
std::string_view builtin_corpus();
inline constexpr std::string_view builtin_source = "builtin";

// The text of a file, of all text files below a folder in the order of their paths, or of
// builtin_source. A .jsonl file is the texts of its lines' "text" members. Hidden files, links and
// files with zero bytes are skipped. Fails for compressed files, and if no text is left.
std::string read_text(const std::string& where);

// The tokens of a text in the tokenizer's template, stored in two or four bytes each by the
// vocabulary (one for bytes). `progress` is called with the number of bytes done.
Tokens tokenize(std::string text, const Tokenizer& tokenizer,
                const std::function<void(size_t)>& progress = {});

// All tokens of a source: builtin_source, a text file or a folder of them through the tokenizer
// (null: bytes), or a token file (data/token_file.h) or a folder of them, mapped, in the order of
// their names. Fails for a token file with ids of `vocab` or more.
Tokens read_tokens(const std::string& where, int64_t vocab, const Tokenizer* tokenizer = nullptr);

// Data to train on.
struct Source {
  std::string where;
  const Tokenizer* tokenizer = nullptr;
  int64_t vocab = byte_vocabulary;
  int64_t batch = 1, context = 1;  // a token file holds at least one batch
  double validation = 0.05;        // fraction
  // Of files of examples (data/chat/examples.h).
  std::optional<ChatTemplate> chat = {};  // how messages are written
  std::optional<int64_t> eos = {};        // the id that ends a completion
  bool packed = false;                    // several examples may share a row of a batch
  // Called while a text is tokenized, with the bytes done and those of all.
  std::function<void(size_t, size_t)> progress = {};
};

// The tokens of read_tokens, the last of them for validation. In a folder of token files, those
// with "val" in their names are for validation instead, if there are any. A .jsonl file of examples
// becomes documents.
Split read_split(const Source& source);

}  // namespace binade::data
