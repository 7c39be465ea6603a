#include "binade/base/text.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

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

// They show nothing themselves and change what is shown after them.
TEST(Text, EscapesFormatCharacters) {
  EXPECT_EQ(visible("a\u202eb\u2066c"), "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c");
  EXPECT_EQ(visible("\u00ad\u200b\ufeff"), "\\xc2\\xad\\xe2\\x80\\x8b\\xef\\xbb\\xbf");
  EXPECT_EQ(visible("\u2028\U000e0041"), "\\xe2\\x80\\xa8\\xf3\\xa0\\x81\\x81");
  // Their neighbors stay.
  EXPECT_EQ(visible("\u00ac\u00ae\u200a\u2010\u2027\u202f\u205f\u2070"),
            "\u00ac\u00ae\u200a\u2010\u2027\u202f\u205f\u2070");
  for (const char* one : {"\u202a", "\u202e", "\u2066", "\u2069"})
    EXPECT_TRUE(is_bidi_control(one)) << visible(one);
  for (const char* one : {"\u2029", "\u202f", "\u2065", "\u206a", "\u200d", "a"})
    EXPECT_FALSE(is_bidi_control(one)) << visible(one);
}

TEST(Text, EscapesByCodePoint) {
  EXPECT_EQ(unicode_escaped("\u009b31m\x7f \u202e\u00e9\U0001f600"),
            "\\u009b31m\\u007f \\u202e\u00e9\U0001f600");
}

TEST(Text, SignedPercentHasNoNegativeZero) {
  EXPECT_EQ(signed_percent(0.0053), "+0.53%");
  EXPECT_EQ(signed_percent(-0.012), "-1.20%");
  EXPECT_EQ(signed_percent(-0.00004), "0.00%");
  EXPECT_EQ(signed_percent(0.00004), "0.00%");
  EXPECT_EQ(signed_percent(0), "0.00%");
  EXPECT_EQ(signed_percent(-0.004, 0), "0%");
  EXPECT_EQ(signed_percent(1, 0), "+100%");
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

// Every character as Unicode defines its bytes; then every beginning that no character has.
TEST(Text, KnowsTheLengthOfEveryCharacter) {
  std::set<std::string> begins;  // the first two bytes of characters of more than one
  int64_t wrong = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;  // surrogates are no characters
    const auto tail = [code](int shift) {
      return static_cast<char>(0x80U | ((code >> shift) & 0x3FU));
    };
    char text[5] = "aaaa";
    const size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    constexpr unsigned lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    text[0] = static_cast<char>(lead[size] | code >> 6 * (size - 1));
    for (size_t i = 1; i < size; ++i) text[i] = tail(6 * static_cast<int>(size - 1 - i));
    wrong += utf8_length(text, 0) != size;
    if (size == 1) continue;
    if (code % 64 == 0) begins.insert(std::string(text, 2));
    wrong += utf8_length(std::string_view(text, size - 1), 0) != 0;  // cut short
    text[size - 1] = 'a';
    wrong += utf8_length(text, 0) != 0;
  }
  EXPECT_EQ(wrong, 0);
  for (int first = 0x80; first < 0x100; ++first) {
    for (int second = 0; second < 0x100; ++second) {
      const std::string begin = {static_cast<char>(first), static_cast<char>(second)};
      if (begins.contains(begin) ||
          (first >= 0xC2 && first < 0xE0 && second >= 0x80 && second < 0xC0))
        continue;
      EXPECT_EQ(utf8_length(begin + "\x80\xbf", 0), 0u) << first << " " << second;
    }
  }
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
  EXPECT_EQ(edit_distance("trian", "train"), 1u);  // neighbors swapped
  EXPECT_EQ(edit_distance("tarni", "train"), 2u);
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

TEST(Text, ListsItems) {
  EXPECT_EQ(listed({}, "or"), "");
  EXPECT_EQ(listed({"a"}, "or"), "a");
  EXPECT_EQ(listed({"a", "b"}, "or"), "a or b");
  EXPECT_EQ(listed({"a", "b", "c"}, "and"), "a, b and c");
}

}  // namespace
}  // namespace binade
