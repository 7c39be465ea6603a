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
  WorkBudget budget(text.size());
  Pattern(Regex(pattern, "test"))
      .each_part(text, budget, [&](std::string_view part, bool is_match) {
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

TEST(Regex, NamesThePartThatItRefuses) {
  const std::pair<const char*, const char*> parts[] = {
      {"ab{1}+c", "{1}+"}, {"ab{2}?c", "{2}?"}, {"ab{1,2}+c", "{1,2}+"}, {"x(?~a)y", "(?~"}};
  for (const auto& [pattern, part] : parts)
    EXPECT_THAT(test::error_of([&] { Regex(pattern, "here"); }), HasSubstr(part)) << pattern;
}

TEST(Regex, RefusesWhatIsNone) {
  for (const char* pattern : {"(", "a)", "[a", "\\p{Nosuch}", "*", "\\p{Letter}"}) {
    EXPECT_THAT(test::error_of([&] { Regex(pattern, "here"); }), HasSubstr("here")) << pattern;
  }
}

TEST(Regex, RunawayPatternsEnd) {
  const Regex regex("(a+)+(a+)+(a+)+[bc]", "test");
  const std::string text(500, 'a');
  WorkBudget budget(text.size());
  EXPECT_THAT(test::error_of([&] { regex.find(text, 0, budget); }),
              AllOf(HasSubstr("(a+)+(a+)+(a+)+[bc]"), HasSubstr("steps")));
}

// Thousands of steps at each of many positions, few at a single one.
TEST(Regex, PositionsShareABudget) {
  const std::string pattern = "(a|aa){1,16}[bc]", text(20'000, 'a');
  const Regex regex(pattern, "test");
  WorkBudget budget(text.size());
  EXPECT_THAT(test::error_of([&] { regex.find(text, 0, budget); }),
              AllOf(HasSubstr(pattern), HasSubstr("steps for 20000 bytes of text")));
  // One such position is no fault of the pattern.
  const std::string rare = std::string(1000, 'x') + std::string(14, 'a') + "c" + "b";
  WorkBudget enough(rare.size());
  const auto found = regex.find(rare, 0, enough);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->begin, 1000u);
  EXPECT_EQ(found->end, 1015u);
}

TEST(Regex, SlowPositionsChangeNoMatch) {
  // 30 letters before the wrong end take many steps; the matches after them are found.
  const Regex regex("(a|aa){1,30}c|b", "test");
  const std::string text = std::string(24, 'a') + "b" + std::string(24, 'a') + "c";
  WorkBudget budget(text.size());
  const auto first = regex.find(text, 0, budget);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->begin, 24u);
  const auto second = regex.find(text, first->end, budget);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->begin, 25u);
  EXPECT_EQ(second->end, text.size());
}

TEST(Regex, LongMatchesNeedNoStack) {
  const std::string spaces(2 << 20, ' ');
  WorkBudget budget(spaces.size());
  EXPECT_EQ(Regex(gpt2_pattern, "test").find(spaces, 0, budget)->end, spaces.size());
  EXPECT_EQ(Regex("(?:a|b)+", "test").find(std::string(1 << 16, 'a'), 0, budget)->end,
            size_t{1} << 16);
}

}  // namespace
}  // namespace binade::data
