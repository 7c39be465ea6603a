#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "binade/data/tokenizer_json/pattern.h"

namespace binade::data {

struct Lowercase {};
// Inserts a text at the beginning, unless the segment is empty.
struct Prepend {
  std::string text;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct StripAccents {
  MarkKind marks = MarkKind::all;
};
// Removes control characters, makes every white space a plain space.
struct CleanText {};
// Puts spaces around each Chinese character.
struct SpaceIdeographs {};

using NormalizerStep =
    std::variant<NormalForm, Lowercase, Prepend, Replace, StripAccents, CleanText, SpaceIdeographs>;

// The normalizer of a tokenizer.json: steps that change a text before it is split.
class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps = {}) : steps_(std::move(steps)) {}

  // How a piece relates to the whole text.
  enum class Piece : uint8_t {
    segment,       // everything between two added tokens or the ends of the text
    continuation,  // the rest of a segment: nothing is prepended
  };

  // The changed text, in `storage` if there are steps. Fails if it grows past a bound.
  std::string_view apply(std::string_view text, Piece piece, WorkBudget& budget,
                         std::string& storage) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace binade::data
