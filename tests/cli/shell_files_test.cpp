#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"

// What shells and man(1) read of the program.
namespace binade::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Completions : public ::testing::Test {
 protected:
  // What bash offers for the last of these words.
  std::vector<std::string> offered(const std::string& words) const {
    const Outcome outcome = run_shell(
        "bash -c " + quoted("source " + script_ + "; COMP_WORDS=(" + words +
                            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _binade 2>/dev/null; "
                            "printf '%s\\n' \"${COMPREPLY[@]}\""));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::vector<std::string> result;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) result.push_back(line);
    return result;
  }

  const testing::TemporaryFolder folder_;
  const std::string script_ = folder_.put("binade.bash", binade("completions bash").out).string();
};

TEST_F(Completions, OfCommandsOptionsAndValues) {
  EXPECT_THAT(offered("binade tra"), ElementsAre("train"));
  EXPECT_THAT(offered("binade bench st"), ElementsAre("step"));
  EXPECT_THAT(offered("binade train --precisio"), ElementsAre("--precision", "--precision-plan"));
  EXPECT_THAT(offered("binade train --precision ''"),
              ElementsAre("fp32", "tf32", "bf16", "fp16", "fp8"));
  EXPECT_THAT(offered("binade train --steps 3 --optimizer l"), ElementsAre("lion"));
  EXPECT_THAT(offered("binade launch -n 2 train --precision b"), ElementsAre("bf16"));
  // An option that few need, which --help leaves out.
  EXPECT_THAT(offered("binade train --reduce-d"), ElementsAre("--reduce-dtype"));
}

TEST_F(Completions, OfFilesAreLeftToTheShell) {
  EXPECT_THAT(offered("binade train --data ''"), IsEmpty());
  EXPECT_THAT(offered("binade eval some-fi"), IsEmpty());
  EXPECT_THAT(offered("binade train --no-such-o"), IsEmpty());
}

TEST(ManPage, OfTrainHasEveryOption) {
  const std::string page = binade("man train").out;
  EXPECT_THAT(page, HasSubstr(".Dt BINADE-TRAIN 1\n"));
  std::istringstream help(binade("train --help-all").out);
  int options = 0;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  --")) continue;
    std::string name = line.substr(3, line.find(' ', 3) - 3);  // Fl writes the first dash
    for (size_t at = 0; (at = name.find('-', at)) != name.npos; at += 2) name.replace(at, 1, "\\-");
    EXPECT_THAT(page, HasSubstr(" Fl \"" + name + "\"")) << line;
    ++options;
  }
  EXPECT_GT(options, 70);
  EXPECT_THAT(binade("man").out, HasSubstr(".Xr binade-train 1 ."));
  EXPECT_EQ(binade("man trian").status, 2);
}

TEST(ManPage, IsWellFormed) {
  if (run_shell("command -v mandoc").status != 0) GTEST_SKIP() << "there is no mandoc";
  for (const char* command :
       {"", "train", "launch", "bench step", "tokenize train", "plan", "lab"}) {
    const testing::TemporaryFolder folder;
    const auto page = folder.put("page.1", binade("man " + std::string(command)).out);
    const Outcome lint = run_shell("mandoc -T lint -W warning " + quoted(page.string()));
    EXPECT_EQ(lint.out, "") << command;
  }
}

}  // namespace
}  // namespace binade::cli
