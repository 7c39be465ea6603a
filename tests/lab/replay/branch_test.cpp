#include "binade/lab/replay/branch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "binade/lab/replay/recorded_run.h"
#include "binade/train/checkpoint.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/resume_settings.h"
#include "io/temporary_folder.h"
#include "lab/replay/recorded_config.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

train::RunResult resumed(const fs::path& folder, const std::vector<std::string>& allowed) {
  train::Config config = train::saved_settings(folder, {{"out", folder.string()}}).config;
  config.run.resume = true;
  config.run.allow_changes = allowed;
  return train::run(config, train::Progress::Mode::quiet);
}

// With the same settings it has the steps, and the hashes, of the run that it came from.
TEST(Branch, ContinuesTheRun) {
  const testing::TemporaryFolder folder;
  const train::Config config = recorded_config(folder, "fp16");
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  const fs::path branch = folder / "branch";
  branch_run(run, {.step = 4, .folder = branch.string()});
  EXPECT_EQ(resumed(branch, {}).steps, 6);
  EXPECT_EQ(train::read_chain(branch).links, run.chain.links);
  EXPECT_NE(train::read_origin(branch / "checkpoints/step-6").run, run.origin.run);
}

TEST(Branch, HasItsOwnSettingsFromThereOn) {
  const testing::TemporaryFolder folder;
  const train::Config config = recorded_config(folder, "fp16");
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  const fs::path folder_of_branch = folder / "branch";
  const Branch branch =
      branch_run(run, {.step = 3, .folder = folder_of_branch.string(), .settings = {"beta1=0.5"}});
  EXPECT_THAT(branch.command, HasSubstr("--allow-changes beta1"));
  EXPECT_EQ(resumed(folder_of_branch, {"beta1"}).steps, 6);
  const train::Chain chain = train::read_chain(folder_of_branch);
  ASSERT_EQ(chain.links.size(), 4u);
  EXPECT_EQ(chain.links[1], run.chain.links[1]);
  EXPECT_EQ(train::differing_parts(chain.links[2].state, run.chain.links[2].state),
            "weights, moments");
}

TEST(Branch, RefusesWhatCannotContinue) {
  const testing::TemporaryFolder folder;
  const train::Config config = recorded_config(folder, "fp16");
  train::run(config, train::Progress::Mode::quiet);
  const RecordedRun run = open_run(config.run.out, "at");
  const auto refusal = [&](const BranchOptions& options) {
    try {
      branch_run(run, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string free = (folder / "branch").string();
  EXPECT_THAT(refusal({.step = 3, .folder = config.run.out}), HasSubstr("does not exist"));
  EXPECT_THAT(refusal({.step = 6, .folder = free}), HasSubstr("expected 0 to 5"));
  EXPECT_THAT(refusal({.step = 3, .folder = free, .settings = {"lr"}}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(refusal({.step = 3, .folder = free, .settings = {"optimizer=lion"}}),
              HasSubstr("its state does not fit"));
  EXPECT_THAT(refusal({.step = 3, .folder = free, .settings = {"width=32"}}),
              HasSubstr("another model is another run"));
  EXPECT_FALSE(fs::exists(free));
}

// Its first steps, and a branch from these, have the settings of then.
TEST(Branch, KeepsTheSettingsOfEarlierSteps) {
  const testing::TemporaryFolder folder;
  const train::Config config = recorded_config(folder, "fp16");
  train::run(config, train::Progress::Mode::quiet);
  const std::string first = (folder / "first").string(), second = (folder / "second").string();
  branch_run(open_run(config.run.out, "at"),
             {.step = 4, .folder = first, .settings = {"beta1=0.5"}});
  resumed(first, {"beta1"});
  const RecordedRun run = open_run(first, "at");
  EXPECT_EQ(run.settings_of(4).train.beta1, 0.9);
  EXPECT_EQ(run.settings_of(5).train.beta1, 0.5);
  const Branch branch =
      branch_run(run, {.step = 3, .folder = second, .settings = {"weight-decay=0.3"}});
  EXPECT_THAT(branch.command, ::testing::EndsWith("--allow-changes weight-decay"));
  resumed(second, {"weight-decay"});
  EXPECT_EQ(open_run(second, "at").config.train.beta1, 0.9);
}

}  // namespace
}  // namespace binade::lab
