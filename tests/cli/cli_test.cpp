#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace binade::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Bad input gives exit code 2 and one line that says what is wrong and where to read on.
void expect_refused(const std::string& arguments, const std::string& naming) {
  const Outcome outcome = binade(arguments);
  EXPECT_EQ(outcome.status, 2) << arguments;
  EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
  EXPECT_THAT(outcome.err, StartsWith("binade: ")) << arguments;
  EXPECT_THAT(outcome.err, HasSubstr(naming)) << arguments;
  EXPECT_THAT(outcome.err, HasSubstr("--help")) << arguments;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(Cli, HelpIsEverywhere) {
  const Outcome help = binade("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"formats", "version"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Outcome command_help = binade(std::string(command) + " --help");
    EXPECT_EQ(command_help.status, 0);
    EXPECT_THAT(command_help.out, HasSubstr(command));
    EXPECT_THAT(command_help.err, IsEmpty());
  }
  EXPECT_THAT(binade("formats --help").out, HasSubstr("--json"));
}

TEST(Cli, VersionPrintsTheProjectsVersion) {
  const Outcome outcome = binade("version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "binade " BINADE_VERSION "\n");
}

TEST(Cli, VersionIsAnOptionToo) {
  const Outcome outcome = binade("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "binade " BINADE_VERSION "\n");
}

TEST(Cli, HelpIsACommandToo) {
  EXPECT_EQ(binade("help").out, binade("--help").out);
  EXPECT_EQ(binade("help formats").out, binade("formats --help").out);
  EXPECT_EQ(binade("help formats").status, 0);
  EXPECT_NE(binade("help formats").out.find("--bits Excludes: --json NUMBER\n"), std::string::npos);
  expect_refused("help fromats", "did you mean 'formats'?");
}

TEST(Cli, UnknownCommandsNameTheNearest) {
  expect_refused("trian", "There is no command 'trian'; did you mean 'train'?");
  expect_refused("evla runs/1", "did you mean 'eval'?");
  const Outcome other = binade("frobnicate");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, ::testing::Not(HasSubstr("did you mean")));
}

TEST(Cli, BadInputGivesOneMessageAndExitCodeTwo) {
  expect_refused("", "A command is required");
  expect_refused("formats --jsno", "--jsno");
  expect_refused("formats version", "version");
  expect_refused("--jsno", "--jsno");
}

TEST(Cli, OutputThatCannotBeWrittenIsAFailure) {
  const Outcome outcome = run_shell(quoted(BINADE_EXECUTABLE) + " formats >/dev/full");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write"));
}

TEST(Cli, FormatsPrintsText) {
  const Outcome outcome = binade("formats");
  EXPECT_EQ(outcome.status, 0);
  for (const char* text : {"bf16", "e4m3fnuz", "448", "57344", "65504"}) {
    EXPECT_THAT(outcome.out, HasSubstr(text));
  }
}

TEST(Cli, FormatsPrintsJson) {
  const Outcome outcome = binade("formats --json");
  ASSERT_EQ(outcome.status, 0);
  const auto table = nlohmann::json::parse(outcome.out);
  const auto format = [&table](const std::string& name) {
    const auto& rows = table.is_array() ? table : table.at("formats");
    return *std::find_if(rows.begin(), rows.end(),
                         [&](const auto& row) { return row.at("name") == name; });
  };
  EXPECT_EQ(format("e4m3").at("max"), 448.0);
  EXPECT_EQ(format("e4m3fnuz").at("max"), 240.0);
  EXPECT_EQ(format("e5m2").at("max"), 57344.0);
  EXPECT_EQ(format("f16").at("max"), 65504.0);
  EXPECT_EQ(format("f16").at("min_subnormal"), std::ldexp(1.0, -24));
  EXPECT_EQ(format("bf16").at("min_subnormal"), std::ldexp(1.0, -133));
}

}  // namespace
}  // namespace binade::cli
