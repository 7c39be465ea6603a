#include "binade/base/terminal.h"

#include <gtest/gtest.h>

#include <memory>

namespace binade::terminal {
namespace {

TEST(Terminal, AFileIsNone) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(is_terminal(file.get()));
  EXPECT_FALSE(has_color(file.get()));
  EXPECT_EQ(width(file.get()), 80);
}

TEST(Terminal, ColorIsForTerminalsWithoutNoColor) {
  EXPECT_TRUE(has_color(true, nullptr, "xterm"));
  EXPECT_FALSE(has_color(false, nullptr, "xterm"));
  EXPECT_FALSE(has_color(true, "1", "xterm"));
  EXPECT_TRUE(has_color(true, "", "xterm"));  // as no-color.org has it
  EXPECT_FALSE(has_color(true, nullptr, "dumb"));
  EXPECT_FALSE(has_color(true, nullptr, nullptr));
}

TEST(Terminal, StylesAreEscapeSequencesAroundTheText) {
  EXPECT_EQ(styled("text", Style::bold, false), "text");
  EXPECT_EQ(styled("text", Style::bold, true), "\x1b[1mtext\x1b[0m");
  EXPECT_EQ(styled("text", Style::yellow, true), "\x1b[33mtext\x1b[0m");
}

}  // namespace
}  // namespace binade::terminal
