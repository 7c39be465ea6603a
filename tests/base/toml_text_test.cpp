#include "binade/base/toml_text.h"

#include <gtest/gtest.h>

#include <string>

#include "binade/base/error.h"
#include "binade/base/toml.h"

namespace binade {
namespace {

TEST(TomlText, CommentsAndStringsHoldAnyCharacter) {
  for (const std::string text : {
           "",
           "a = 1 # \xC3\xA9",
           "\xEF\xBB\xBF# \xC3\xA9\n[a] # \xC3\xA9",
           "a = \"\xC3\xA9\"",
           "a ='\xC3\xA9'\nb=\t\"\xC3\xA9\" # \xC3\xA9\n",
           "a = \"'\\\"\xC3\xA9\"",
           "a = '\\' # '\xC3\xA9",
           "a = \"\" # \xC3\xA9",
           "\"a\" = 1\n# \xC3\xA9",
           "a = \"\"\"\nb\"\"\"",
           "a = [{b = 'c'}]",
           "a = []\nb = \"\xC3\xA9\"",
           "a = [\"\xC3\xA9]\", 'c'] # \xC3\xA9\nb = '\xC3\xA9'",
           "a = [ # \xC3\xA9\n  'b', # \xC3\xA9\n  '\xC3\xA9',\n]\nc = '\xC3\xA9'",
           "a = [0.9, -1e-3, true]\nb = '\xC3\xA9'",
       })
    EXPECT_EQ(misplaced_character(text), text.size()) << text;
}

TEST(TomlText, ElsewhereTheFirstIsFound) {
  // The only non-ASCII character of each text is misplaced.
  for (const std::string text : {
           "\xC3\xA9 = 1",
           "[\xC3\xA9]",
           "'\xC3\xA9' = 1",
           "a = \xC3\xA9",
           "a = --'\xC3\xA9'",
           "a = \"b\" \xC3\xA9",
           "a = 'b\\' \xC3\xA9",
           "a = \"#\" \xC3\xA9",
           "a = \"\\\\\" \xC3\xA9",
           "# b\n\xC3\xA9",
           "a = \"not closed\n\xC3\xA9",
           "a = \"\"\"b\\\n\xC3\xA9\"\"\"",
           "a = '''\n# \xC3\xA9'''",
           "a = [[--{'\xC3\xA9",
           "a = [\nb='\xC3\xA9'",
           "a = [-- '\xC3\xA9']",
           "a = ['b\n'\xC3\xA9']",
           "a = ['\n'\xC3\xA9']",
           "a = [\"b\\\"\n'\xC3\xA9']",
           "a = ['']\n\xC3\xA9",
           "a = [\"\"\"\xC3\xA9\"\"\"]",
           "a = ['b'] \xC3\xA9",
           "a = {b = --='\xC3\xA9'",
       })
    EXPECT_EQ(misplaced_character(text), text.find('\xC3')) << text;
}

TEST(TomlText, ATextMayEndAnywhere) {
  const std::string text =
      "[a.'b']\nc = \"d\\\"\" # e\nf = 'g'\n\n'h' = 1\ni =  2\nj = \"\"\"k\"\"\"\n";
  for (size_t size = 0; size <= text.size(); ++size)
    EXPECT_EQ(misplaced_character(std::string_view(text).substr(0, size)), size);
}

TEST(TomlText, AStringEscapesWhatTomlForbids) {
  EXPECT_EQ(toml_string("a \"b\" \\ \xC3\xA9"), "\"a \\\"b\\\" \\\\ \xC3\xA9\"");
  EXPECT_EQ(toml_string("\x7F\n\x01\x7F"), "\"\\u007f\\n\\u0001\\u007f\"");
}

TEST(TomlText, KeysHaveAtMostSoManyParts) {
  const auto key_of = [](size_t parts) {
    std::string key = "a";
    for (size_t i = 1; i < parts; ++i) key += ".a";
    return key + " = 1\n";
  };
  const std::string first = "# a comment . . . . . . . . . . . . . . . . . . . . .\n";
  const std::string strings = "x = '....................' # ....................\n";
  const std::string good = first + strings + key_of(max_key_parts) + key_of(max_key_parts);
  EXPECT_EQ(overlong_key(good), good.size());
  EXPECT_EQ(overlong_key(good + key_of(max_key_parts + 1)), good.size());
}

// toml++ would take a frame of the stack for each part.
TEST(TomlText, KeysOfManyPartsAreRefusedBeforeTheyAreParsed) {
  std::string parts;
  for (int i = 0; i < 40'000; ++i) parts += "a.";
  for (const std::string& text : {parts + "a = 1\n", "[" + parts + "a]\n"})
    EXPECT_THROW(parse_toml(text, {"config", "input.toml"}), Error);
}

}  // namespace
}  // namespace binade
