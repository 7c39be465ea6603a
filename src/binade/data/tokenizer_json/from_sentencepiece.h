#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace binade::data {

// A tokenizer.json with the ids of a SentencePiece model, for transformers. Unlike SentencePiece it
// matches control pieces that a text spells out (<s>). None for models that it cannot express:
// those with unused pieces or with spaces as suffixes.
std::optional<std::string> sentencepiece_tokenizer_json(std::string_view model,
                                                        const std::string& name);

}  // namespace binade::data
