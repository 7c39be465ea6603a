#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace binade::data {

// Validates a SentencePiece model file (a protocol buffer) and refuses, naming file, byte, expected
// and found, anything that would make the library crash or allocate without bound: broken fields or
// too many of them, pieces that are empty or contain zero bytes, non-finite scores, other types of
// models, normalization tables with indices out of range.
void check_sentencepiece_model(std::span<const std::byte> bytes, const std::string& name);

// The contents of a model that has been validated.
struct SentencePieceContents {
  enum class Type : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  std::vector<Piece> pieces;  // by id
  bool is_unigram = true;
  bool byte_fallback = false;
  bool suffix_space = false;  // spaces belong to the word before them
  // The normalizer: a table of rules (empty: none), a space before the text, runs of spaces joined.
  std::string charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

SentencePieceContents read_sentencepiece_model(std::span<const std::byte> bytes,
                                               const std::string& name);

}  // namespace binade::data
