#pragma once

#include <filesystem>

#include "binade/data/tokenizer.h"

namespace binade::data {

// A SentencePiece model (BPE or unigram). The file is checked before the library sees it
// (data/sentencepiece_model.h). Text is encoded in pieces of about 64 kB, cut at line ends.
std::unique_ptr<const Tokenizer> open_sentencepiece(const std::filesystem::path& path);
// The same from a file's bytes; `name` stands for it in messages.
std::unique_ptr<const Tokenizer> sentencepiece_of(std::string bytes, const std::string& name);

enum class TokenizerKind : uint8_t { bpe, unigram };

// The bytes of a model of `vocab` pieces trained on `text`, the same for the same text. Decoding
// gives any UTF-8 text back as it was: no normalization, bytes for what has no piece, lines and
// runs of spaces kept. `name` stands for the text in messages.
std::string train_sentencepiece(std::string_view text, int64_t vocab, TokenizerKind kind,
                                const std::string& name);

}  // namespace binade::data
