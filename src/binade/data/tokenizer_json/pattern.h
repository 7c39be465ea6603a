#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "binade/data/tokenizer_json/regex.h"
#include "binade/data/tokenizer_json/unicode.h"

namespace binade::data {

// The pattern of a Split or Replace: a text, or a regular expression.
class Pattern {
 public:
  explicit Pattern(std::string text) : what_(std::move(text)) {}
  explicit Pattern(Regex regex) : what_(std::move(regex)) {}

  // The text, or null for a regular expression.
  const std::string* text() const { return std::get_if<std::string>(&what_); }

  // Calls visit(part, is_match) for the matches in valid UTF-8 and the gaps between them, in order;
  // together they are the text. A match may be empty, a gap is not.
  template <class Visit>
  void each_part(std::string_view text, WorkBudget& budget, Visit&& visit) const {
    size_t done = 0;
    each_match(text, budget, [&](Span match) {
      if (match.begin > done) visit(text.substr(done, match.begin - done), false);
      visit(text.substr(match.begin, match.end - match.begin), true);
      done = match.end;
    });
    if (done < text.size()) visit(text.substr(done), false);
  }

 private:
  template <class Visit>
  void each_match(std::string_view text, WorkBudget& budget, Visit&& visit) const {
    if (const std::string* literal = this->text()) {
      for (size_t at = 0; (at = text.find(*literal, at)) != std::string_view::npos;) {
        visit(Span{at, at + literal->size()});
        at += literal->size();
      }
      return;
    }
    const Regex& regex = std::get<Regex>(what_);
    size_t from = 0, last_end = std::string_view::npos;
    while (from <= text.size()) {
      const auto match = regex.find(text, from, budget);
      if (!match) return;
      // An empty match right after the last one does not count, or the loop would not end.
      if (match->begin == match->end && match->end == last_end) {
        from += from < text.size() ? character_at(text, from).bytes : 1;
        continue;
      }
      visit(*match);
      from = last_end = match->end;
    }
  }

  std::variant<std::string, Regex> what_;
};

}  // namespace binade::data
