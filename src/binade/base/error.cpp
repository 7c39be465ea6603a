#include "binade/base/error.h"

#include <sstream>

#include "binade/base/text.h"

namespace binade {
namespace {

// Longer than any path, so that only the content of files is cut.
constexpr size_t max_fact = 4096;

std::string message(std::string_view op, const Facts& facts) {
  std::string text(op);
  if (!facts.argument.empty()) text += ": " + shortened(facts.argument, max_fact);
  if (!facts.expected.empty()) text += ": expected " + shortened(facts.expected, max_fact);
  if (!facts.found.empty())
    text += (facts.expected.empty() ? ": found " : ", found ") + shortened(facts.found, max_fact);
  if (!facts.hint.empty()) text += "; " + facts.hint;
  text = visible(text);
  std::istringstream details(facts.details);
  for (std::string line; std::getline(details, line);) text += "\n" + visible(line);
  return text;
}

}  // namespace

Error::Error(std::string_view op, Facts facts)
    : std::runtime_error(message(op, facts)), op_(op), facts_(std::move(facts)) {}

void fail(std::string_view op, Facts facts) { throw Error(op, std::move(facts)); }

}  // namespace binade
