#pragma once

#include <string>
#include <variant>
#include <vector>

namespace binade::data {

// Maps characters back to bytes (byte_level.h); tokens with other characters stay.
struct ByteLevelDecoder {};
// Maps tokens <0xXX> to bytes.
struct ByteFallbackDecoder {};
// Joins all tokens into one.
struct FuseDecoder {};
struct ReplaceDecoder {
  std::string text, content;
};
// Removes a character from the ends of each token, at most `start` and `stop` times.
struct StripDecoder {
  std::string character;
  size_t start = 0, stop = 0;
};
// Maps the replacement character to a space, in the first token to nothing.
struct MetaspaceDecoder {
  std::string replacement;
  bool drop_first = true;
};

// Puts a space before each token but the first, unless it has the prefix, which is removed.
struct WordPieceDecoder {
  std::string prefix;
  bool cleanup = true;  // joins punctuation and English contractions to the word before them
};

using DecoderStep = std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, ReplaceDecoder,
                                 StripDecoder, MetaspaceDecoder, WordPieceDecoder>;

// Makes text from tokens, step by step. The result need not be UTF-8: the next token may complete a
// character.
class Decoder {
 public:
  // Without a decoder tokens are joined with spaces.
  Decoder() = default;
  explicit Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)), exists_(true) {}

  std::string apply(std::vector<std::string> tokens) const;

 private:
  std::vector<DecoderStep> steps_;
  bool exists_ = false;
};

}  // namespace binade::data
