#include "binade/data/tokenizer_json/text_parts.h"

#include <gtest/gtest.h>

#include <string>

namespace binade::data {
namespace {

constexpr size_t part = 64 << 10, longest = 1 << 20;

size_t first_end(const std::string& text, size_t begin = 0) {
  return text_part_end(text, begin, [](size_t) { return true; });
}

TEST(TextParts, AShortTextIsOne) {
  EXPECT_EQ(first_end(std::string(part, 'a')), part);
  EXPECT_EQ(first_end(std::string(part + 9, 'a'), 9), part + 9);
}

// Without a boundary a part ends with the text or after a megabyte.
TEST(TextParts, EndAnywhereIfNothingElseIsNear) {
  EXPECT_EQ(first_end(std::string(part + 1000, 'a')), part + 1000);
  EXPECT_EQ(first_end(std::string(longest + 1000, 'a')), longest);
  EXPECT_EQ(first_end(std::string(longest + 1000, 'a'), 7), longest + 7);
  std::string text(longest - 1, 'a');
  text += "\u20AC" + std::string(part, 'a');  // three bytes around the megabyte
  EXPECT_EQ(first_end(text), longest - 1);
}

TEST(TextParts, EndAtTheLastBoundaryBeforeTheWantedEnd) {
  std::string text(3 * part, 'a');
  text[part - 5] = text[part - 90] = text[part + 7] = ' ';
  EXPECT_EQ(first_end(text), part - 5);
  text[part - 5] = text[part - 90] = 'a';
  EXPECT_EQ(first_end(text), part + 7);
  text[part + 7] = 'a';
  text[part / 2 - 1] = ' ';  // too short a part
  EXPECT_EQ(first_end(text), text.size());
  text[part / 2 + 1] = ' ';
  EXPECT_EQ(first_end(text), part / 2 + 1);
}

TEST(TextParts, BoundariesArePlacesWherePatternsSplit) {
  const auto is_boundary = [](const std::string& before, const std::string& after) {
    std::string text(2 * part, 'a');
    text.replace(part - before.size(), before.size() + after.size(), before + after);
    bool asked = false;
    text_part_end(text, 0, [&](size_t at) { return asked |= at == part, at == part; });
    return asked;
  };
  EXPECT_TRUE(is_boundary("word", " word"));
  EXPECT_TRUE(is_boundary("9", " word"));
  EXPECT_TRUE(is_boundary("word", "\nword"));
  EXPECT_TRUE(is_boundary("word", "\r\n"));
  EXPECT_TRUE(is_boundary(".\n", "Word"));
  EXPECT_TRUE(is_boundary("\u00E4\n", "\u00E4"));
  EXPECT_FALSE(is_boundary("wo", "rd"));
  EXPECT_FALSE(is_boundary(".", " word"));
  EXPECT_FALSE(is_boundary("word", " 9"));
  EXPECT_FALSE(is_boundary("word", "  "));
  EXPECT_FALSE(is_boundary("\n\n", "Word"));
  EXPECT_FALSE(is_boundary("\r\n", "Word"));
  EXPECT_FALSE(is_boundary(".\n", "."));
  EXPECT_FALSE(is_boundary(".\n", "\u00A0x"));
}

TEST(TextParts, RefusedBoundariesAreTriedSixtyFourTimesOnEitherSide) {
  std::string text;
  while (text.size() < 4 * part) text += "word ";
  int tries = 0;
  EXPECT_EQ(text_part_end(text, 0, [&](size_t) { return ++tries, false; }), text.size());
  EXPECT_EQ(tries, 2 * max_part_tries);
}

}  // namespace
}  // namespace binade::data
