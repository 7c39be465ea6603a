#include "binade/base/error.h"

#include <gtest/gtest.h>

namespace binade {
namespace {

std::string text(std::string_view op, Facts facts) { return Error(op, std::move(facts)).what(); }

TEST(Error, SaysAllItKnows) {
  EXPECT_EQ(text("linear", {.argument = "weight",
                            .expected = "[8, 4]",
                            .found = "[4, 8] f32",
                            .hint = "transpose it"}),
            "linear: weight: expected [8, 4], found [4, 8] f32; transpose it");
}

TEST(Error, LeavesOutWhatItDoesNotKnow) {
  EXPECT_EQ(text("linear", {}), "linear");
  EXPECT_EQ(text("linear", {.argument = "weight"}), "linear: weight");
  EXPECT_EQ(text("linear", {.argument = "weight", .found = "none"}), "linear: weight: found none");
  EXPECT_EQ(text("linear", {.expected = "a tensor"}), "linear: expected a tensor");
  EXPECT_EQ(text("linear", {.hint = "try again"}), "linear; try again");
}

TEST(Error, IsOneLineWithControlCharactersEscaped) {
  EXPECT_EQ(text("config", {.argument = "a\nb", .found = "\x1b[2J", .hint = "\xff\u20ac"}),
            "config: a\\x0ab: found \\x1b[2J; \\xff\u20ac");
}

TEST(Error, EndsWithItsDetails) {
  EXPECT_EQ(text("memory", {.found = "none left", .details = "held 3\nfree\t0\n"}),
            "memory: found none left\nheld 3\nfree\\x090");
}

TEST(Error, KeepsItsFactsApart) {
  try {
    fail("cast", {.argument = "dtype", .expected = "f32", .found = "e4m3", .hint = "scale it"});
    FAIL() << "fail() returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.op(), "cast");
    EXPECT_EQ(error.facts().argument, "dtype");
    EXPECT_EQ(error.facts().expected, "f32");
    EXPECT_EQ(error.facts().found, "e4m3");
    EXPECT_EQ(error.facts().hint, "scale it");
  }
}

TEST(Error, IsARuntimeError) { EXPECT_THROW(fail("op", {}), std::runtime_error); }

// A megabyte of a file's content does not belong on a terminal.
TEST(ErrorMessage, CutsWhatIsTooLong) {
  const std::string long_text(1 << 20, 'x');
  const Error error("op", {.argument = long_text, .expected = long_text, .found = long_text});
  EXPECT_LT(std::string_view(error.what()).size(), 13'000u);
}

}  // namespace
}  // namespace binade
