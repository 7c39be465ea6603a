#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <sstream>

#include "cli/command.h"
#include "cli/launched_run.h"
#include "io/temporary_folder.h"
#include "support/paths.h"

// `binade launch` as a supervisor: it knows stopped from failed, passes signals on, returns the
// run's exit code, and takes its ranks with it.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// By mpirun, and without one on the PATH.
class LaunchMpi : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return;
    if (const std::string missing = missing_for_mpirun(); !missing.empty()) GTEST_SKIP() << missing;
  }

  // Words of a run that does not end by itself, with a checkpoint every 20 steps.
  std::string options(const std::string& steps = "1e6",
                      const std::string& checkpoint_every = "20") const {
    return "train --device cpu --layers 1 --width 16 --heads 2 --context 8 --batch 1 "
           "--accumulate 2 --eval-every 0 --eval-batches 1 --sample 0 --layer-stats 0 "
           "--log-every 20 --data " +
           (test::source_dir() / "README.md").string() + " --steps " + steps +
           " --checkpoint-every " + checkpoint_every + " --out " + run_.string();
  }

  // Variables of the launch.
  static std::string environment() { return GetParam() ? "" : " PATH=/nowhere"; }

  static std::vector<std::string> launch(const std::string& options) {
    std::istringstream line("/usr/bin/env" + environment() +
                            " " BINADE_EXECUTABLE " launch -n 2 --restarts 3 " + options);
    std::vector<std::string> words;
    for (std::string word; line >> word;) words.push_back(word);
    return words;
  }

  const testing::TemporaryFolder folder_;
  const fs::path run_ = folder_ / "run";
};

INSTANTIATE_TEST_SUITE_P(By, LaunchMpi, ::testing::Values(true, false),
                         [](const auto& one) { return one.param ? "mpirun" : "launch"; });

TEST_P(LaunchMpi, AStoppedRunIsNotStartedAgain) {
  enum class To : uint8_t { launcher, group, rank };
  const std::pair<int, To> cases[] = {{SIGINT, To::launcher}, {SIGINT, To::group},
                                      {SIGTERM, To::group},   {SIGHUP, To::launcher},
                                      {SIGTERM, To::rank},    {SIGHUP, To::rank}};
  for (const auto& [signal, to] : cases) {
    SCOPED_TRACE(::testing::Message() << strsignal(signal) << ", " << static_cast<int>(to));
    fs::remove_all(run_);
    LaunchedRun run(launch(options()));
    ASSERT_TRUE(run.wait_for("checkpoint: ")) << run.output();
    const pid_t target = to == To::launcher ? run.pid()
                         : to == To::group  ? -run.pid()
                                            : run.ranks(2).back();
    ::kill(target, signal);
    EXPECT_EQ(run.wait(), 128 + signal) << run.output();
    EXPECT_THAT(run.output(), AllOf(HasSubstr("stopped after step"),
                                    HasSubstr("binade launch -n 2 train --resume --out "),
                                    Not(HasSubstr("starting again"))));
    // A stop is no failure for mpirun to report at length.
    EXPECT_THAT(run.output(), Not(HasSubstr("non-zero")));
  }
}

TEST_P(LaunchMpi, ADivergedRunIsNotStartedAgain) {
  LaunchedRun run(launch(options("12", "4") + " --warmup 0 --beta2 0 --lr 3e-2"));
  EXPECT_EQ(run.wait(), 3) << run.output();
  EXPECT_THAT(run.output(),
              AllOf(HasSubstr("the run has failed"), Not(HasSubstr("starting again"))));
}

// Before mpirun has started its ranks, and while these start.
TEST_P(LaunchMpi, IsStoppedInItsStartUp) {
  for (const bool ranks_exist : {false, true}) {
    fs::remove_all(run_);
    LaunchedRun run(launch(options()));
    if (ranks_exist)
      run.ranks(2);
    else
      run.mpirun();
    ::kill(run.pid(), SIGTERM);
    EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.output();
    EXPECT_THAT(run.output(), Not(HasSubstr("starting again")));
  }
}

TEST_P(LaunchMpi, PassesARequestForACheckpointOn) {
  LaunchedRun run(launch(options("1e6", "0")));
  // Ranks that have just been started do not die of it.
  for (const pid_t rank : run.ranks(2)) {
    EXPECT_GT(rank, 0);
    ::kill(run.pid(), SIGUSR1);
  }
  ASSERT_TRUE(run.wait_for("step 20/")) << run.output();
  ::kill(run.pid(), SIGUSR1);
  ASSERT_TRUE(run.wait_for("checkpoint: ")) << run.output();
  ::kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.output();
}

TEST_P(LaunchMpi, TakesItsRanksWithIt) {
  LaunchedRun run(launch(options()));
  ASSERT_TRUE(run.wait_for("checkpoint: ")) << run.output();
  const std::vector<pid_t> all = descendants_of(run.pid());
  ASSERT_GE(all.size(), 3u);  // mpirun and two ranks
  ::kill(run.pid(), SIGKILL);
  for (const pid_t pid : all) EXPECT_TRUE(has_ended(pid));
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
}

TEST_P(LaunchMpi, StartsAgainAfterTheDeathOfMpirun) {
  LaunchedRun run(launch(options()));
  ASSERT_TRUE(run.wait_for("checkpoint: ")) << run.output();
  ::kill(run.mpirun(), SIGKILL);
  ASSERT_TRUE(run.wait_for("starting again from step")) << run.output();
  ASSERT_TRUE(run.wait_for("checkpoint: ")) << run.output();
  ::kill(-run.pid(), SIGINT);
  EXPECT_EQ(run.wait(), 128 + SIGINT) << run.output();
}

// A rank that is killed before there is a checkpoint says nothing about the run's settings.
// As Open MPI's may, which locks itself up now and then.
TEST(LaunchMpirun, IsEndedIfItStaysWithoutRanks) {
  if (const std::string missing = missing_for_mpirun(); !missing.empty()) GTEST_SKIP() << missing;
  const testing::TemporaryFolder folder;
  const fs::path mpirun = folder.put(
      "mpirun",
      "#!/bin/sh\nwhile [ \"${1#/}\" = \"$1\" ]; do shift; done\n\"$@\"\nexec sleep 1000\n");
  fs::permissions(mpirun, fs::perms::owner_all);
  LaunchedRun run({"/usr/bin/env",
                   "PATH=" + folder.path().string() + ":/usr/bin:/bin",
                   BINADE_EXECUTABLE,
                   "launch",
                   "-n",
                   "2",
                   "train",
                   "--device",
                   "cpu",
                   "--layers",
                   "1",
                   "--width",
                   "16",
                   "--heads",
                   "2",
                   "--context",
                   "8",
                   "--steps",
                   "60",
                   "--eval-batches",
                   "1",
                   "--sample",
                   "0",
                   "--out",
                   (folder / "run").string()});
  EXPECT_EQ(run.wait(), 0) << run.output();
  EXPECT_TRUE(fs::exists(folder / "run/summary.json")) << run.output();
}

TEST_P(LaunchMpi, StartsAgainAfterAKillInTheStartUp) {
  LaunchedRun run(launch(options()));
  ::kill(run.ranks(2).back(), SIGKILL);
  ASSERT_TRUE(run.wait_for("starting again from step 0")) << run.output();
  ASSERT_TRUE(run.wait_for("checkpoint: ")) << run.output();
  ::kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.output();
}

TEST_P(LaunchMpi, ReturnsTheCodeOfATimeLimit) {
  LaunchedRun run(launch(options() + " --time-limit 0.5"));
  EXPECT_EQ(run.wait(), 124) << run.output();
  EXPECT_THAT(run.output(), Not(HasSubstr("starting again")));
}

// mpirun gives its ranks pseudo-terminals.
TEST_P(LaunchMpi, WritesPlainLinesToAPipe) {
  const std::string variables = "TERM=xterm BINADE_THREADS=1" + environment() + " ";
  std::vector<std::string> programs{quoted(BINADE_EXECUTABLE) + " launch -n 2 "};
  if (GetParam())
    programs.push_back("mpirun --allow-run-as-root --oversubscribe -n 2 " +
                       quoted(BINADE_EXECUTABLE) + " ");
  for (const std::string& program : programs) {
    fs::remove_all(run_);
    const Outcome outcome = run_shell(variables + program + options("40") + " | cat");
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("step 20/40"), HasSubstr("step 40/40")));
    EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\x1b"))));
  }
}

TEST_P(LaunchMpi, ShowsTheUpdatingLineOnATerminal) {
  const std::string short_run = "launch -n 2 " + options("40");
  for (const int columns : {80, 40}) {
    fs::remove_all(run_);
    const Outcome outcome =
        binade_on_terminal(short_run, columns, "BINADE_THREADS=1" + environment());
    EXPECT_EQ(outcome.status, 0) << outcome.out;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("\x1b[K"), HasSubstr("\x1b[1m")));
    std::istringstream pieces(outcome.out);
    for (std::string piece; std::getline(pieces, piece, '\r');) {
      if (piece.find("/40 loss") == std::string::npos) continue;
      EXPECT_LT(piece.substr(0, piece.find('\x1b')).size(), static_cast<size_t>(columns));
    }
  }
  fs::remove_all(run_);
  const Outcome plain =
      binade_on_terminal(short_run, 80, "BINADE_THREADS=1 NO_COLOR=1" + environment());
  EXPECT_THAT(plain.out, AllOf(HasSubstr("\x1b[K"), Not(HasSubstr("\x1b[1m"))));
}

TEST_P(LaunchMpi, RefusesAMistypedCommandBeforeItStartsRanks) {
  const Outcome outcome = binade("launch -n 2 train --stpes 3");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("train: --stpes"), HasSubstr("did you mean --steps?"),
                                 Not(HasSubstr("mpirun"))));
}

}  // namespace
}  // namespace binade::cli
