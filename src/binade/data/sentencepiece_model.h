#pragma once

#include <span>
#include <string>

namespace binade::data {

// Validates a SentencePiece model file (a protocol buffer) and refuses, naming file, byte, expected
// and found, anything that would make the library crash or allocate without bound: broken fields or
// too many of them, pieces that are empty or contain zero bytes, non-finite scores, other types of
// models, normalization tables with indices out of range.
void check_sentencepiece_model(std::span<const std::byte> bytes, const std::string& name);

}  // namespace binade::data
