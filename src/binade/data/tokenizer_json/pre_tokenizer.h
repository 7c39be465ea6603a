#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/data/tokenizer_json/pattern.h"

namespace binade::data {

enum class SplitBehavior : uint8_t {
  isolated,              // a match is a word
  removed,               // a match is dropped
  merged_with_previous,  // a match ends the word before it
  merged_with_next,      // a match begins the word after it
  contiguous,            // adjacent matches are one word
};

struct SplitPattern {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // gaps count as matches
};

// Words become bytes, each a token to begin with.
struct ByteLevel {
  bool add_prefix_space = false;     // before a text that does not begin with one
  std::optional<Pattern> pattern{};  // GPT-2's, or none
};

// Replaces spaces by a visible character, and begins words there.
struct Metaspace {
  enum class Prepend : uint8_t { always, first, never };
  std::string replacement;
  Prepend prepend = Prepend::always;
  bool split = true;
};

using PreTokenizerStep = std::variant<SplitPattern, ByteLevel, Metaspace>;

// The pre-tokenizer of a tokenizer.json: splits a text into the words that the model encodes. Each
// step splits the words of the step before as texts of their own.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps = {}) : steps_(std::move(steps)) {}

  struct Piece {
    std::string_view text;
    bool at_start = false;      // of the whole text
    bool continuation = false;  // of a segment that began earlier: nothing is prepended
  };
  using Sink = FunctionRef<void(std::string_view)>;

  // Calls `sink` with each word in order; none is empty.
  void apply(const Piece& piece, WorkBudget& budget, Sink sink) const {
    run(0, piece, budget, sink);
  }

  bool empty() const { return steps_.empty(); }
  bool is_byte_level() const;

 private:
  void run(size_t step, const Piece& piece, WorkBudget& budget, Sink sink) const;

  std::vector<PreTokenizerStep> steps_;
};

}  // namespace binade::data
