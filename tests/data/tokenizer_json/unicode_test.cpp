#include "binade/data/tokenizer_json/unicode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace binade::data {
namespace {

std::string in_form(std::string_view text, NormalForm form) {
  std::string out;
  append_normalized(out, text, form);
  return out;
}

TEST(Unicode, InvalidPartsBecomeOneReplacementEach) {
  const std::string bad = "\xEF\xBF\xBD";
  std::string storage;
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"abc\xC3\xA4\xE2\x82\xAC\xF0\x9F\x8D\x8E", "abc\xC3\xA4\xE2\x82\xAC\xF0\x9F\x8D\x8E"},
      // The Unicode Standard, table 3-11: truncated sequences.
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", bad + bad + bad + bad + "A"},
      // Tables 3-8 to 3-10: overlong, surrogates, past the last character.
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", bad + bad + bad + bad + bad + bad + bad + bad + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", bad + bad + bad + bad + bad + bad + bad + bad + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", bad + bad + bad + bad + bad + "A" + bad + bad + "B"},
      {"a long beginning of ASCII, then \xFF", "a long beginning of ASCII, then " + bad},
      {"cut short \xF0\x9F\x8D", "cut short " + bad},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(valid_utf8(bytes, storage), text);
}

TEST(Unicode, ValidTextIsNotCopied) {
  std::string storage;
  const std::string text = "as it is: \xE2\x82\xAC";
  EXPECT_EQ(valid_utf8(text, storage).data(), text.data());
}

TEST(Unicode, CharactersComeBackFromTheirCodes) {
  for (char32_t code = 0; code < 0x110000; code += 7) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "x";
    append_character(text, code);
    const Character character = character_at(text, 1);
    ASSERT_EQ(character.code, code);
    ASSERT_EQ(character.bytes, text.size() - 1);
    ASSERT_EQ(character_before(text, text.size()), 1u);
  }
}

// Examples of Unicode Standard Annex #15.
TEST(Unicode, NormalForms) {
  struct Case {
    const char *text, *nfc, *nfd, *nfkc, *nfkd;
  };
  const Case cases[] = {
      {"plain", "plain", "plain", "plain", "plain"},
      {"\u212B", "\u00C5", "A\u030A", "\u00C5", "A\u030A"},
      {"\u2126", "\u03A9", "\u03A9", "\u03A9", "\u03A9"},
      {"e\u0301x", "\u00E9x", "e\u0301x", "\u00E9x", "e\u0301x"},
      {"\u1E9B\u0323", "\u1E9B\u0323", "\u017F\u0323\u0307", "\u1E69", "s\u0323\u0307"},
      {"\u1E0B\u0323", "\u1E0D\u0307", "d\u0323\u0307", "\u1E0D\u0307", "d\u0323\u0307"},
      {"\uFB01", "\uFB01", "\uFB01", "fi", "fi"},
      {"2\u2075", "2\u2075", "2\u2075", "25", "25"},
      {"\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8"},
      {"\uAC00\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8"},
      // Excluded from composition.
      {"\u0958", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"},
      {"a\u0345\u0334b", "a\u0334\u0345b", "a\u0334\u0345b", "a\u0334\u0345b", "a\u0334\u0345b"},
  };
  for (const Case& c : cases) {
    for (const std::string around : {"", "x", "\u4E00"}) {
      const auto with = [&around](const char* text) { return around + text + around; };
      EXPECT_EQ(in_form(with(c.text), NormalForm::nfc), with(c.nfc));
      EXPECT_EQ(in_form(with(c.text), NormalForm::nfd), with(c.nfd));
      EXPECT_EQ(in_form(with(c.text), NormalForm::nfkc), with(c.nfkc));
      EXPECT_EQ(in_form(with(c.text), NormalForm::nfkd), with(c.nfkd));
    }
  }
}

// Marks in the wrong order are sorted, not bubbled into place.
TEST(Unicode, ManyMarksTakeNoTime) {
  std::string text = "a", sorted = "a";
  for (int i = 0; i < 100'000; ++i) text += "\u0345";
  for (int i = 0; i < 100'000; ++i) text += "\u0334";
  for (int i = 0; i < 100'000; ++i) sorted += "\u0334";
  for (int i = 0; i < 100'000; ++i) sorted += "\u0345";
  EXPECT_EQ(in_form(text, NormalForm::nfc) == sorted, true);
}

TEST(Unicode, LowerCaseIsByCharacter) {
  std::string out;
  append_lowercase(out, "ABC xyz \u00C4\u03A3\u03A3 \u0130 \u1E9E \u4E00 \U00010400");
  EXPECT_EQ(out, "abc xyz \u00E4\u03C3\u03C3 i\u0307 \u00DF \u4E00 \U00010428");
}

TEST(Unicode, WhiteSpace) {
  int64_t count = 0;
  for (char32_t code = 0; code < 0x110000; ++code) count += is_white_space(code) ? 1 : 0;
  EXPECT_EQ(count, 25);  // PropList.txt
  EXPECT_FALSE(is_white_space(0x180E));
  EXPECT_FALSE(is_white_space(0x200B));
}

}  // namespace
}  // namespace binade::data
