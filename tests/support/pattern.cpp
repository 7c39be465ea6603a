#include "support/pattern.h"

#include <regex>

namespace binade::test {
namespace {

Pattern::Match strings_of(const std::smatch& match) {
  Pattern::Match strings;
  for (const auto& group : match) strings.push_back(group.str());
  return strings;
}

}  // namespace

struct Pattern::Compiled {
  std::regex regex;
};

Pattern::Pattern(const std::string& expression)
    : compiled_(std::make_shared<Compiled>(Compiled{std::regex(expression)})) {}

std::vector<Pattern::Match> Pattern::find_all(const std::string& text) const {
  std::vector<Match> found;
  for (std::sregex_iterator match(text.begin(), text.end(), compiled_->regex), end; match != end;
       ++match)
    found.push_back(strings_of(*match));
  return found;
}

Pattern::Match Pattern::match(const std::string& text) const {
  std::smatch match;
  std::regex_match(text, match, compiled_->regex);
  return strings_of(match);
}

std::string Pattern::replace(const std::string& text, const std::string& replacement) const {
  return std::regex_replace(text, compiled_->regex, replacement);
}

}  // namespace binade::test
