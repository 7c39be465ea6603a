#pragma once

#include <filesystem>

#include "binade/data/tokenizer.h"

namespace binade::data {

// A SentencePiece model (BPE or unigram). The file is validated before the library parses it
// (data/sentencepiece_model.h). Text is encoded in chunks of about 64 kB, split at newlines.
std::unique_ptr<const Tokenizer> open_sentencepiece(const std::filesystem::path& path);
// open_sentencepiece() of a file's bytes; error messages call it `name`.
std::unique_ptr<const Tokenizer> sentencepiece_of(std::string bytes, const std::string& name);

enum class TokenizerKind : uint8_t { bpe, unigram };

// The bytes of a model of `vocab` pieces trained on `text`; the same text gives the same model.
// Encoding and decoding preserve any UTF-8 text: no normalization, byte fallback for characters
// without a piece, newlines and runs of spaces kept. Error messages call the text `name`.
std::string train_sentencepiece(std::string_view text, int64_t vocab, TokenizerKind kind,
                                const std::string& name);

}  // namespace binade::data
