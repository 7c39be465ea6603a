#include "binade/base/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace binade {
namespace {

using ::testing::StartsWith;

std::string toml_refusal(std::string_view text) {
  return test::error_of([&] { parse_toml(text, {"config", "c.toml"}); });
}

TEST(ParseToml, ReadsTables) {
  EXPECT_EQ(
      parse_toml("a = 1\n[b]\nc = \"d\"\n", {"config", "c.toml"})["b"]["c"].value<std::string>(),
      "d");
}

TEST(ParseToml, NamesTheLineOfAMistake) {
  EXPECT_EQ(toml_refusal("\n\na = 1\n\xc3\xa9 = 2\n"),
            "config: c.toml, line 4: expected TOML in ASCII but for comments and strings on one "
            "line, found byte 0xc3");
  EXPECT_THAT(toml_refusal("\xc3\xa9 = 2\n"), StartsWith("config: c.toml, line 1: expected "));
  std::string key = "a";
  for (int i = 0; i < 1000; ++i) key += ".a";
  EXPECT_THAT(toml_refusal("\nb = 1\n" + key + " = 1\n"),
              StartsWith("config: c.toml, line 3: expected keys of at most "));
  EXPECT_THAT(toml_refusal("\na = 1\nb = = 2\n"),
              StartsWith("config: c.toml, line 3, column 5: expected TOML, found "));
}

}  // namespace
}  // namespace binade
