#pragma once

#include <span>
#include <string>

namespace binade::data {

// Walks through a SentencePiece model file (a protocol buffer) and refuses, naming file, byte,
// expected and found, what the library would crash on or take memory without bound for: broken or
// endless fields, too many of them, pieces that are empty or hold zero bytes, scores that are not
// finite, other kinds of models, normalization tables that lead out of themselves.
void check_sentencepiece_model(std::span<const std::byte> bytes, const std::string& name);

}  // namespace binade::data
