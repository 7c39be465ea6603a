#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"
#include "support/pattern.h"

// The commands on a terminal.
namespace binade::cli {
namespace {

using test::Pattern;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string terminal_run =
    " --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --threads 1 --steps "
    "12 "
    "--eval-every 6 --checkpoint-every 4 --layer-stats 5 --sample 20 ";

std::string without_colors(const std::string& text) {
  return Pattern("\x1b\\[[0-9]*m").replace(text, "");
}

// The lines that a terminal shows in the end: "\r" goes back, and the end of each line is cleared.
struct Screen {
  std::vector<std::string> lines;

  explicit Screen(const std::string& output) {
    std::string line, written;
    const std::string text = Pattern("\r+\n").replace(without_colors(output), "\n");
    for (const char c : text) {
      if (c == '\r' || c == '\n') {
        written = Pattern("\x1b\\[K").replace(written, "");
        line = std::exchange(written, {});
      } else {
        written += c;
      }
      if (c == '\n') lines.push_back(std::exchange(line, {}));
    }
  }
};

TEST(CliTerminal, AnUpdatingLineNeverWrapsAndLeavesNothingBehind) {
  for (const int columns : {80, 40}) {
    const testing::TemporaryFolder folder;
    const Outcome outcome = binade_on_terminal(
        "train --out " + quoted((folder / "r").string()) + terminal_run, columns);
    ASSERT_EQ(outcome.status, 0) << outcome.out;
    const Screen screen(outcome.out);
    for (const std::string& line : screen.lines) {
      const bool is_progress = !Pattern("^(step )?[0-9]+/12").find_all(line).empty();
      if (!is_progress) continue;
      EXPECT_THAT(line, HasSubstr("val ")) << "a line that should have been removed";
      EXPECT_LT(line.size(), static_cast<size_t>(columns));
    }
    EXPECT_THAT(screen.lines, Not(Each(Not(HasSubstr("checkpoint: ")))));
  }
}

TEST(CliTerminal, AtFortyColumnsAValidationKeepsItsLoss) {
  const testing::TemporaryFolder folder;
  const Outcome outcome =
      binade_on_terminal("train --out " + quoted((folder / "r").string()) + terminal_run, 40);
  ASSERT_EQ(outcome.status, 0) << outcome.out;
  int validations = 0;
  for (const std::string& line : Screen(outcome.out).lines) {
    if (line.find("val ") == std::string::npos) continue;
    ++validations;
    EXPECT_TRUE(Pattern(" [0-9]+ s( |$)").find_all(line).empty()) << line;
  }
  EXPECT_EQ(validations, 3);  // at steps 0, 6 and 12
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

TEST(CliTerminal, HelpFitsTheTerminal) {
  for (const char* command :
       {"--help", "train --help", "launch --help", "generate --help", "bench step --help",
        "tokenize train --help", "help plan", "report --help"}) {
    const std::string all = binade(command).out;
    for (const int columns : {40, 60, 80, 120}) {
      const std::string help = binade_on_terminal(command, columns).out;
      size_t longest = 0;
      std::istringstream lines(help);
      for (std::string line; std::getline(lines, line);)
        longest = std::max(longest, line.size() - (line.ends_with('\r') ? 1 : 0));
      EXPECT_LE(longest, static_cast<size_t>(columns)) << command;
      EXPECT_EQ(without_spaces(help), without_spaces(all)) << command << " at " << columns;
    }
  }
}

TEST(CliTerminal, ColorsAreForTerminalsWithoutNoColor) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(
      binade_on_terminal("train --out " + quoted((folder / "a").string()) + terminal_run, 80).out,
      HasSubstr("\x1b[1m"));
  EXPECT_THAT(binade_on_terminal("train --out " + quoted((folder / "b").string()) + terminal_run,
                                 80, "NO_COLOR=1")
                  .out,
              Not(HasSubstr("\x1b[1m")));
  EXPECT_THAT(binade_on_terminal("trian", 80).out, HasSubstr("\x1b[31mbinade:\x1b[0m"));
  EXPECT_THAT(binade_on_terminal("trian", 80, "NO_COLOR=1").out, Not(HasSubstr("\x1b")));
}

TEST(CliTerminal, CompareShowsWhichRunIsTraining) {
  const testing::TemporaryFolder folder;
  const Outcome outcome = binade_on_terminal(
      "compare --precisions fp32,bf16 --seeds 2 --layers 1 --width 16 --heads 2 --context 8 "
      "--batch "
      "2 --eval-batches 1 --threads 1 --steps 3 --out " +
          quoted((folder / "c").string()),
      40);
  ASSERT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("run 2 of 3, bf16: step 1/3"),
                                 HasSubstr("run 3 of 3, fp32, seed 1: step 3/3")));
}

}  // namespace
}  // namespace binade::cli
