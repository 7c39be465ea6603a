#include "binade/data/tokenizer_json/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/data/tokenizer_json/byte_level.h"
#include "binade/data/tokenizer_json/pattern.h"
#include "support/error_of.h"

namespace binade::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> parts_of(const std::string& pattern, std::string_view text) {
  std::vector<std::string> parts;
  Pattern(Regex(pattern, "test")).each_part(text, [&](std::string_view part, bool is_match) {
    parts.push_back((is_match ? "" : "-") + std::string(part));
  });
  return parts;
}

TEST(Regex, SplitsAsTheFamiliesDo) {
  EXPECT_THAT(parts_of(gpt2_pattern, "It's 123  x\n\n y"),
              ElementsAre("It", "'s", " 123", " ", " x", "\n\n", " y"));
  EXPECT_THAT(parts_of(llama3_pattern, "IT'S 1234  x.\n\n y"),
              ElementsAre("IT", "'S", " ", "123", "4", " ", " x", ".\n\n", " y"));
  EXPECT_THAT(parts_of(gpt2_pattern, "\u4E2D\u6587\uFF0C\u0661\u3000x"),
              ElementsAre("\u4E2D\u6587", "\uFF0C", "\u0661", "\u3000", "x"));
}

TEST(Regex, MeansWhatOnigurumaMeans) {
  EXPECT_THAT(parts_of("^a$", "a\na"), ElementsAre("a", "-\n", "a"));
  EXPECT_THAT(parts_of("\\s", "a\u180Eb\u0085"), ElementsAre("-a\u180Eb", "\u0085"));
  EXPECT_THAT(parts_of("(?m:a.b)", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(parts_of("a{,2}b", "aaab"), ElementsAre("-a", "aab"));
  EXPECT_THAT(parts_of("\\v", "\n\x0B"), ElementsAre("-\n", "\x0B"));
  EXPECT_THAT(parts_of("[\\u4e00-\\u4e05]+", "x\u4E01\u4E02"), ElementsAre("-x", "\u4E01\u4E02"));
  // A script's own characters, not the punctuation used with it.
  EXPECT_THAT(parts_of("\\p{Han}+", "\u4E2D\u3001\u6587"),
              ElementsAre("\u4E2D", "-\u3001", "\u6587"));
  EXPECT_THAT(parts_of("\\p{^L}", "a1"), ElementsAre("-a", "1"));
  EXPECT_THAT(parts_of("(?i)a|b", "AB"), ElementsAre("A", "B"));
  EXPECT_THAT(parts_of("(?i:'s)", "'\u017F"), ElementsAre("'\u017F"));
}

TEST(Regex, EmptyMatchesCutAndEnd) {
  EXPECT_THAT(parts_of("(?=b)", "abab"), ElementsAre("-a", "", "-ba", "", "-b"));
  EXPECT_THAT(parts_of("x*", "ab"), ElementsAre("", "-a", "", "-b", ""));
}

TEST(Regex, RefusesWhatIsReadDifferently) {
  const char* const patterns[] = {
      "\\w",     "\\bx",   "\\h",     "\\R",    "\\X",         "\\G",    "\\1",
      "(a)\\k",  "a{1}+",  "a{1,2}+", "a{2}?",  "(?s:a)",      "(?x:a)", "b(?i)a",
      "(?<n>a)", "(*UTF)", "[[a]b]",  "[a&&b]", "[]a]",        "\\xE4",  "\\x{zz}",
      "\\u12",   "\\pL",   "\\p{L&}", "(?~a)",  "[[:alpha:]]", "\\",
  };
  for (const char* pattern : patterns) {
    EXPECT_THAT(test::error_of([&] { Regex(pattern, "here"); }),
                AllOf(HasSubstr("here"), HasSubstr("Oniguruma and PCRE2")))
        << pattern;
  }
}

TEST(Regex, RefusesWhatIsNone) {
  for (const char* pattern : {"(", "a)", "[a", "\\p{Nosuch}", "*", "\\p{Letter}"}) {
    EXPECT_THAT(test::error_of([&] { Regex(pattern, "here"); }), HasSubstr("here")) << pattern;
  }
}

TEST(Regex, RunawayPatternsEnd) {
  const Regex regex("(a+)+(a+)+(a+)+[bc]", "test");
  EXPECT_THAT(test::error_of([&] { regex.find(std::string(500, 'a'), 0); }), HasSubstr("steps"));
}

TEST(Regex, LongMatchesNeedNoStack) {
  const std::string spaces(2 << 20, ' ');
  EXPECT_EQ(Regex(gpt2_pattern, "test").find(spaces, 0)->end, spaces.size());
  EXPECT_EQ(Regex("(?:a|b)+", "test").find(std::string(1 << 16, 'a'), 0)->end, size_t{1} << 16);
}

}  // namespace
}  // namespace binade::data
