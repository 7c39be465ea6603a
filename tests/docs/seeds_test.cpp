#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"
#include "support/paths.h"

// Walks the tables of docs/seeds.md: runs each command and looks for the text that the page quotes.
namespace binade::docs {
namespace {

using testing::content_of;
using testing::TemporaryFolder;

// A row of the page.
struct ClaimRow {
  std::string section, claim, command, seen;
};

std::vector<std::string> table_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

std::vector<ClaimRow> claim_rows() {
  std::vector<ClaimRow> rows;
  std::istringstream page(content_of(test::source_dir() / "docs/seeds.md"));
  std::string section;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    if (!line.starts_with("| ") || line.starts_with("| claim |")) continue;
    const std::vector<std::string> cells = table_cells(line);
    EXPECT_EQ(cells.size(), 3u) << line;
    if (cells.size() == 3) rows.push_back({section, cells[0], cells[1], cells[2]});
  }
  return rows;
}

// The texts in code font.
std::vector<std::string> quoted_texts(const std::string& markdown) {
  std::vector<std::string> texts;
  for (size_t at = 0; (at = markdown.find('`', at)) != std::string::npos;) {
    const size_t end = markdown.find('`', at + 1);
    texts.push_back(markdown.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return texts;
}

// Words separated by one space each, without the marks of a conclusion: tables are aligned, and
// sentences wrapped.
std::string words_of(const std::string& text) {
  std::string words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    if (word != ">") words += (words.empty() ? "" : " ") + word;
  }
  return words;
}

const char* const slow_section = "Runs of minutes";

void walk_claims(const std::function<bool(const ClaimRow&)>& selected) {
  const TemporaryFolder folder;
  std::map<std::string, std::string> outputs;  // by command, since rows share them
  for (const ClaimRow& row : claim_rows()) {
    if (!selected(row)) continue;
    const std::vector<std::string> commands = quoted_texts(row.command);
    ASSERT_EQ(commands.size(), 1u) << row.claim;
    const std::string program = "binade ";
    ASSERT_TRUE(commands[0].starts_with(program)) << commands[0];
    if (!outputs.contains(commands[0])) {
      const cli::Outcome outcome = cli::run_shell(
          fmt::format("cd {} && OMP_WAIT_POLICY=passive {} {}", cli::quoted(folder.path().string()),
                      cli::quoted(BINADE_EXECUTABLE), commands[0].substr(program.size())));
      ASSERT_EQ(outcome.status, 0) << commands[0] << "\n" << outcome.err;
      outputs[commands[0]] = words_of(outcome.out + "\n" + outcome.err);
    }
    const std::vector<std::string> texts = quoted_texts(row.seen);
    EXPECT_FALSE(texts.empty()) << row.claim << ": quotes nothing";
    for (const std::string& text : texts)
      EXPECT_THAT(outputs[commands[0]], ::testing::HasSubstr(words_of(text))) << row.claim;
  }
}

TEST(Seeds, PageIsComplete) {
  std::map<std::string, int> sections;
  for (const ClaimRow& row : claim_rows()) ++sections[row.section];
  for (const char* section :
       {"Number formats", "Slips of common texts", "Loss scaling", "What runs in which precision",
        "Master weights and accumulation", "Memory and speed", "FP8", "Exercises", slow_section})
    EXPECT_GT(sections[section], 1) << section;
}

TEST(Seeds, CommandsShowTheClaims) {
  walk_claims([](const ClaimRow& row) { return row.section != slow_section; });
}

TEST(SeedsSlow, CommandsShowTheClaims) {
  walk_claims([](const ClaimRow& row) { return row.section == slow_section; });
}

// Each experiment of the lab is on the page.
TEST(Seeds, EveryExperimentIsListed) {
  const std::string page = content_of(test::source_dir() / "docs/seeds.md");
  std::istringstream list(cli::binade("lab").out);
  std::string line;
  std::getline(list, line);
  int count = 0;
  while (list >> line) {
    EXPECT_NE(page.find("`binade lab " + line + "`"), std::string::npos) << line;
    std::getline(list, line);
    ++count;
  }
  EXPECT_GT(count, 15);
}

}  // namespace
}  // namespace binade::docs
