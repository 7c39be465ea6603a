#include "support/pages.h"

#include "support/pattern.h"

namespace binade::test {

std::vector<std::string> outside_references(const std::string& html) {
  // A script sets url(#${name}) of a part of its own page; the empty icon keeps browsers from
  // asking.
  static const Pattern forbidden(
      R"((?:https?:|[ "'](?:src|srcset|data|action|poster|on[a-z]+)=|@import|url\((?!#)|)"
      R"(<link (?!rel="icon" href="data:,">)|<(?:iframe|object|embed|form|base|img)\b|)"
      R"(\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\b *\(|<script[^>]).{0,40})");
  std::vector<std::string> found;
  for (const Pattern::Match& match : forbidden.find_all(html)) found.push_back(match[0]);
  static const Pattern script("<script>");
  const auto scripts = script.find_all(html);
  if (scripts.size() > 1) found.push_back(std::to_string(scripts.size()) + " scripts");
  return found;
}

}  // namespace binade::test
