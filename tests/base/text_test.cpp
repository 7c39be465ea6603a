#include "binade/base/text.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

using namespace std::string_view_literals;

TEST(Text, LeavesPrintableTextUnchanged) {
  EXPECT_EQ(visible(""), "");
  EXPECT_EQ(visible("[8, 4] f32; \"a\\x1b\""), "[8, 4] f32; \"a\\x1b\"");
  EXPECT_EQ(visible("\u00a0 \u00e9 \u20ac \U0001f600"), "\u00a0 \u00e9 \u20ac \U0001f600");
}

TEST(Text, EscapesControlCharacters) {
  EXPECT_EQ(visible("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(visible("a\tb\r\nc\x7f"), "a\\x09b\\x0d\\x0ac\\x7f");
  EXPECT_EQ(visible("\0"sv), "\\x00");
  EXPECT_EQ(visible("\u0080\u009b31m\u009f"), "\\xc2\\x80\\xc2\\x9b31m\\xc2\\x9f");
}

TEST(Text, EscapesInvalidUtf8) {
  EXPECT_EQ(visible("a\xff\xfe"), "a\\xff\\xfe");
  EXPECT_EQ(visible("\x9b"), "\\x9b");
  EXPECT_EQ(visible("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half a surrogate
  EXPECT_EQ(visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  EXPECT_EQ(visible("\xe2\x82"), "\\xe2\\x82");                    // cut short
  EXPECT_EQ(visible("\xc3(\xc3\xa9"), "\\xc3(\xc3\xa9");
}

TEST(Text, GroupsDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(842496), "842,496");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-100), "-100");
  EXPECT_EQ(grouped(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Text, EditDistanceCountsInsertionsRemovalsAndReplacements) {
  EXPECT_EQ(edit_distance("train", "train"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("trian", "train"), 2u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Text, LongTextsAreCut) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened_from_left("abcde", 5), "abcde");
  EXPECT_EQ(shortened_from_left("abcdef", 5), "...ef");
}

TEST(Text, GlobsMatchWholeTexts) {
  EXPECT_TRUE(matches_glob("embed*", "embedding.weight"));
  EXPECT_TRUE(matches_glob("*.mlp.*", "blocks.0.mlp.up.weight"));
  EXPECT_TRUE(matches_glob("blocks.?.norm1.*", "blocks.1.norm1.bias"));
  EXPECT_TRUE(matches_glob("*a*b", "aaab"));
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_FALSE(matches_glob("embed", "embedding"));
  EXPECT_FALSE(matches_glob("blocks.?.norm1.*", "blocks.10.norm1.bias"));
  EXPECT_FALSE(matches_glob("a?", "a"));
  EXPECT_FALSE(matches_glob("*b", "ba"));
}

}  // namespace
}  // namespace binade
