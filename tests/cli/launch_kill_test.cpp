#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "cli/launched_run.h"
#include "cli/resumable_run.h"
#include "io/temporary_folder.h"

// kill -9 of `binade launch`, of mpirun and of ranks at random times, from the start on: nothing
// keeps training, and the resumed run ends as the uninterrupted one does, byte for byte. The waits
// are part of the test: they set the times.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

class KilledLaunches {
 public:
  explicit KilledLaunches(uint64_t seed)
      : runs_(arrangement_named("bf16, two ranks"), {.steps = 24, .checkpoint_every = 3},
              folder_.path()),
        draw_(seed) {
    const auto begin = Clock::now();
    LaunchedRun straight(command(folder_ / "straight"));
    EXPECT_EQ(straight.wait(), 0) << straight.output();
    duration_ = std::chrono::duration_cast<microseconds>(Clock::now() - begin);
    expected_ = runs_.outcome(folder_ / "straight");
  }

  // Every second kill comes in the first third of a run: ranks start then.
  void kill(int wanted) {
    for (int kills = 0, trial = 0; kills < wanted && !::testing::Test::HasFailure(); ++trial) {
      SCOPED_TRACE("trial " + std::to_string(trial));
      const fs::path run = folder_ / ("run-" + std::to_string(trial));
      while (is_killed(run, trial % 2 == 0 ? duration_.count() / 3 : duration_.count())) {
        ++kills;
        if (below(4) != 0) break;
      }
      LaunchedRun resumed(command(run));
      EXPECT_EQ(resumed.wait(), 0) << resumed.output();
      EXPECT_TRUE(runs_.outcome(run) == expected_);
      fs::remove_all(run);
    }
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(draw_() % static_cast<uint64_t>(n)); }

  // The arrangement's command with `binade launch` in place of mpirun.
  std::vector<std::string> command(const fs::path& out) const {
    const std::vector<std::string> words = runs_.command(out);
    const auto program = std::find(words.begin(), words.end(), BINADE_EXECUTABLE);
    std::vector<std::string> launch{*program, "launch", "-n", "2"};
    launch.insert(launch.end(), program + 1, words.end());
    return launch;
  }

  bool is_killed(const fs::path& run, int64_t within) {
    LaunchedRun launch(command(run));
    std::this_thread::sleep_for(microseconds(below(within)));
    const std::vector<pid_t> below_it = descendants_of(launch.pid());
    const bool of_launch = below_it.empty() || below(2) == 0;
    ::kill(of_launch ? launch.pid()
                     : below_it[static_cast<size_t>(below(static_cast<int64_t>(below_it.size())))],
           SIGKILL);
    const int status = launch.wait();
    for (const pid_t pid : below_it) EXPECT_TRUE(has_ended(pid));
    return status != 0;
  }

  const testing::TemporaryFolder folder_;
  const ResumableRun runs_;
  std::mt19937_64 draw_;
  microseconds duration_;
  std::string expected_;
};

TEST(LaunchKillsMpi, ResumeIsTheUninterruptedRun) {
  if (const std::string missing = missing_for_mpirun(); !missing.empty()) GTEST_SKIP() << missing;
  KilledLaunches(1).kill(6);
}

// BINADE_KILLS: another number of times.
TEST(LaunchKillsSlow, AHundredTimes) {
  if (const std::string missing = missing_for_mpirun(); !missing.empty()) GTEST_SKIP() << missing;
  const char* text = std::getenv("BINADE_KILLS");
  KilledLaunches(2).kill(text == nullptr ? 100 : std::atoi(text));
}

}  // namespace
}  // namespace binade::cli
