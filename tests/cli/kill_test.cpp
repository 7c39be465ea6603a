#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "cli/process.h"
#include "cli/resumable_run.h"
#include "io/temporary_folder.h"

// kill -9 at random times, also while a checkpoint is being written: the resumed run ends as the
// uninterrupted one does, byte for byte. The waits are part of the test: they set the times.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr RunLength length{.steps = 24, .checkpoint_every = 3};

// Whether a folder whose name starts with `prefix` is among the checkpoints.
bool has_folder(const fs::path& run, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator at(run / "checkpoints", error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) return true;
  }
  return false;
}

bool is_writing(const fs::path& run, int64_t step) {
  return has_folder(run, ".step-" + std::to_string(step) + ".tmp-");
}

struct Tally {
  int kills = 0, while_writing = 0;
};

// Kills until it has hit `wanted` times, each in a run that is then resumed to its end; now and
// then the resumed run is killed too.
Tally kill_runs(const Arrangement& arrangement, int wanted, uint64_t seed) {
  const testing::TemporaryFolder folder;
  const ResumableRun runs(arrangement, length, folder.path());
  std::mt19937_64 draw(seed);
  const auto below = [&draw](int64_t n) {
    return static_cast<int64_t>(draw() % static_cast<uint64_t>(n));
  };
  const auto begin = Clock::now();
  EXPECT_EQ(Process(runs.command(folder / "straight")).wait(), 0);
  const auto whole = std::chrono::duration_cast<microseconds>(Clock::now() - begin).count();
  const std::string expected = runs.outcome(folder / "straight");

  Tally tally;
  for (int trial = 0; tally.kills < wanted && !::testing::Test::HasFailure(); ++trial) {
    const fs::path run = folder / ("run-" + std::to_string(trial));
    bool again = true;
    while (again) {
      Process process(runs.command(run));
      if (below(2) == 0) {
        std::this_thread::sleep_for(microseconds(below(whole)));
      } else {
        const int64_t step =
            length.checkpoint_every * (1 + below(length.steps / length.checkpoint_every));
        while (process.running() && !is_writing(run, step)) std::this_thread::yield();
        std::this_thread::sleep_for(microseconds(below(4000)));
      }
      process.kill();
      if (process.was_killed()) {
        ++tally.kills;
        tally.while_writing += has_folder(run, ".step-") ? 1 : 0;
      }
      again = process.was_killed() && below(4) == 0;
    }
    EXPECT_EQ(Process(runs.command(run)).wait(), 0) << arrangement.name << ", trial " << trial;
    EXPECT_TRUE(runs.outcome(run) == expected) << arrangement.name << ", trial " << trial;
    fs::remove_all(run);
  }
  return tally;
}

// As many kills as BINADE_KILLS says (scripts/torture sets it), or `otherwise`.
int kills_wanted(int otherwise) {
  const char* text = std::getenv("BINADE_KILLS");
  return text == nullptr ? otherwise : std::atoi(text);
}

TEST(Kills, ResumeIsTheUninterruptedRun) {
  for (const char* name : {"fp32", "bf16", "fp16", "fp8"})
    EXPECT_GE(kill_runs(arrangement_named(name), 2, 1).kills, 2);
}

class KillsSlow : public ::testing::TestWithParam<Arrangement> {};

TEST_P(KillsSlow, AThousandTimes) {
  const int wanted = kills_wanted(1000) / static_cast<int>(arrangements().size()) + 1;
  const Tally tally = kill_runs(GetParam(), wanted, 2);
  std::printf("%-28s %5d kills, %5d of them while a checkpoint was being written\n",
              GetParam().name.c_str(), tally.kills, tally.while_writing);
  std::fflush(stdout);
  EXPECT_GE(tally.kills, wanted);
  EXPECT_GE(tally.while_writing, wanted / 10);
}

INSTANTIATE_TEST_SUITE_P(, KillsSlow, ::testing::ValuesIn(arrangements()), arrangement_test_name);

}  // namespace
}  // namespace binade::cli
