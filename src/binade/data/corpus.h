#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "binade/data/chat/chat_template.h"
#include "binade/data/text_reader.h"
#include "binade/data/tokenizer.h"
#include "binade/data/tokens.h"

namespace binade::data {

// The project's own sources and documents, as they were when the program was built, and the name
// they have as a source of text.
std::string_view builtin_corpus();
inline constexpr std::string_view builtin_source = "builtin";

// Called with the bytes done and those of all.
using Progress = std::function<void(size_t, size_t)>;

// The whole text of a source (text_reader.h), at most 8 GiB.
std::string read_text(const std::string& where);

// The tokens of a text in the tokenizer's template, in order: calls `sink` as
// Tokenizer::encode_stream does.
void encode_in_template(TextReader& reader, const Tokenizer& tokenizer, Tokenizer::Sink sink);

// The tokens of encode_in_template() in memory, in two or four bytes each by the vocabulary (one
// for bytes).
Tokens tokenize(TextReader& reader, const Tokenizer& tokenizer, const Progress& progress = {});

// All tokens of a source: builtin_source, a text file or a folder of them through the tokenizer
// (null: bytes), or a token file (data/token_file.h) or a folder of them, mapped, in the order of
// their names. Of a mixture (mixture.h) those of all its sources. Fails for a token file with ids
// of `vocab` or more.
Tokens read_tokens(const std::string& where, int64_t vocab, const Tokenizer* tokenizer = nullptr);

// Data to train on.
struct Source {
  std::string where;
  const Tokenizer* tokenizer = nullptr;
  int64_t vocab = byte_vocabulary;
  int64_t batch = 1, context = 1;  // a token file holds at least one batch
  double validation = 0.05;        // fraction
  Progress progress = {};          // called while a text is tokenized
  // The folder in which texts of at least this many bytes are cached (token_cache.h), which takes
  // about a second to encode. Empty: all tokens are in memory.
  std::filesystem::path cache = {};
  int64_t cache_from = 32 << 20;
  // For files of examples (data/chat/examples.h).
  std::optional<ChatTemplate> chat = {};  // how messages are written
  std::optional<int64_t> eos = {};        // the id that ends a completion
  bool packed = false;                    // several examples may share a row of a batch
  bool pairs = false;                     // the data must be pairs of answers
};

// The tokens of read_tokens, the last of them for validation. In a folder of token files, those
// with "val" in their names are for validation instead, if there are any. A mixture is split source
// by source. A .jsonl file of examples becomes documents, and in a mixture with one all sources do.
Split read_split(const Source& source);

}  // namespace binade::data
