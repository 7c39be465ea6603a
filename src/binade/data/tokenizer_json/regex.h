#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "binade/data/tokenizer_json/work_budget.h"

namespace binade::data {

struct Span {
  size_t begin, end;
};

// A regular expression of a tokenizer.json. It is written for Oniguruma and runs on PCRE2;
// constructs that differ are translated or refused. Character classes are those of PCRE2's Unicode
// version (14 for 10.42).
class Regex {
 public:
  // Fails about a pattern that is not supported; `where` names it in the message.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The first match in valid UTF-8 that begins at `from` or later. Fails if it takes more steps
  // than the budget has.
  std::optional<Span> find(std::string_view text, size_t from, WorkBudget& budget) const;

 private:
  struct Code;
  // A match that begins at `at`, and whether it took many steps.
  std::optional<Span> match_at(std::string_view text, size_t at, WorkBudget& budget,
                               bool& is_slow) const;
  [[noreturn]] void refuse(int error) const;
  std::string description() const;
  std::unique_ptr<const Code> code_;
};

// The pattern in PCRE2's syntax.
std::string translated_pattern(std::string_view pattern, const std::string& where);

}  // namespace binade::data
