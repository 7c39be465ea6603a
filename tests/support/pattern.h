#pragma once

#include <memory>
#include <string>
#include <vector>

namespace binade::test {

// A regular expression in the grammar of std::regex, which takes seconds to compile: here it is
// compiled once for all programs.
class Pattern {
 public:
  using Match = std::vector<std::string>;  // all of it, then its groups

  explicit Pattern(const std::string& expression);

  std::vector<Match> find_all(const std::string& text) const;
  // The match of all of `text`; empty if there is none.
  Match match(const std::string& text) const;
  // `text` with every match replaced.
  std::string replace(const std::string& text, const std::string& replacement) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace binade::test
