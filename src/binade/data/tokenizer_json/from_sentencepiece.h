#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "binade/data/sentencepiece_model.h"

namespace binade::data {

// A tokenizer.json with the ids of a SentencePiece model, for transformers. Unlike SentencePiece it
// matches control pieces that a text spells out (<s>). None for models that it cannot express:
// those with unused pieces or with spaces as suffixes.
std::optional<std::string> sentencepiece_tokenizer_json(std::string_view model,
                                                        const std::string& name);
// The same of its contents, among which pieces may be unused; with the id of a token that begins
// every text. None if there is no piece for unknown characters.
std::optional<std::string> sentencepiece_tokenizer_json(const SentencePieceContents& contents,
                                                        std::optional<int64_t> bos = {});

}  // namespace binade::data
