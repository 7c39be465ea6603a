#include "binade/data/tokenizer_json/pre_tokenizer.h"

#include <algorithm>

namespace binade::data {
namespace {

using Sink = PreTokenizer::Sink;
using TextPiece = PreTokenizer::Piece;

// Joins adjacent parts of one text into words.
class Joiner {
 public:
  Joiner(SplitBehavior behavior, Sink sink) : behavior_(behavior), sink_(sink) {}

  void add(std::string_view part, bool is_match) {
    if (joins(is_match)) {
      word_ = {word_.data(), word_.size() + part.size()};
    } else {
      flush();
      word_ = part;
      has_word_ = true;
    }
    last_match_ = is_match;
  }
  void flush() {
    if (!word_.empty()) sink_(word_);
    word_ = {};
  }

 private:
  bool joins(bool is_match) const {
    if (!has_word_) return false;
    switch (behavior_) {
      case SplitBehavior::merged_with_previous:
        return is_match && !last_match_;
      case SplitBehavior::merged_with_next:
        return !is_match && last_match_;
      default:
        return is_match == last_match_;
    }
  }

  SplitBehavior behavior_;
  Sink sink_;
  std::string_view word_;
  bool has_word_ = false, last_match_ = false;
};

void apply(const SplitPattern& split, const TextPiece& piece, WorkBudget& budget, Sink sink) {
  if (split.behavior == SplitBehavior::isolated || split.behavior == SplitBehavior::removed) {
    const bool remove = split.behavior == SplitBehavior::removed;
    split.pattern.each_part(piece.text, budget, [&](std::string_view part, bool is_match) {
      if (!part.empty() && !(remove && is_match != split.invert)) sink(part);
    });
    return;
  }
  Joiner joiner(split.behavior, sink);
  split.pattern.each_part(piece.text, budget, [&](std::string_view part, bool is_match) {
    joiner.add(part, is_match != split.invert);
  });
  joiner.flush();
}

void apply(const ByteLevel& step, const TextPiece& piece, WorkBudget& budget, Sink sink) {
  std::string spaced;
  std::string_view text = piece.text;
  if (step.add_prefix_space && !piece.continuation && !text.starts_with(' '))
    text = spaced.append(" ").append(text);
  if (!step.pattern) return sink(text);
  step.pattern->each_part(text, budget, [&](std::string_view part, bool) {
    if (!part.empty()) sink(part);
  });
}

void apply(const Metaspace& step, const TextPiece& piece, WorkBudget&, Sink sink) {
  std::string text;
  for (const char c : piece.text) {
    if (c == ' ') {
      text += step.replacement;
    } else {
      text += c;
    }
  }
  const bool wanted = step.prepend == Metaspace::Prepend::always ||
                      (step.prepend == Metaspace::Prepend::first && piece.at_start);
  if (wanted && !piece.continuation && !text.starts_with(step.replacement))
    text.insert(0, step.replacement);
  if (!step.split) return sink(text);
  // A word begins at each replacement.
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(step.replacement, begin + 1), text.size());
    sink(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

bool PreTokenizer::is_byte_level() const {
  return !steps_.empty() && std::holds_alternative<ByteLevel>(steps_.back());
}

void PreTokenizer::run(size_t step, const TextPiece& piece, WorkBudget& budget, Sink sink) const {
  if (step == steps_.size()) {
    if (!piece.text.empty()) sink(piece.text);
    return;
  }
  const bool last = step + 1 == steps_.size();
  const auto next = [&](std::string_view word) {
    // The first word begins where the piece begins.
    run(step + 1, {.text = word, .at_start = piece.at_start && word.data() == piece.text.data()},
        budget, sink);
  };
  std::visit(
      [&](const auto& chosen) {
        last ? data::apply(chosen, piece, budget, sink)
             : data::apply(chosen, piece, budget, Sink(next));
      },
      steps_[step]);
}

}  // namespace binade::data
