#include "binade/train/config/toml_text.h"

#include <gtest/gtest.h>

#include <string>

namespace binade::train {
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

}  // namespace
}  // namespace binade::train
