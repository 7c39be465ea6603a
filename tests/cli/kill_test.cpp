#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "cli/process.h"
#include "cli/resumable_run.h"
#include "io/temporary_folder.h"

// kill -9 at random times, and before and in the middle of random calls that write: the resumed run
// ends as the uninterrupted one does, byte for byte. The waits are part of the test: they set the
// times.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr RunLength kill_run_length{.steps = 24, .checkpoint_every = 3};

// Whether a checkpoint was being written when the run ended.
bool left_half_written(const fs::path& run) {
  std::error_code error;
  for (fs::directory_iterator at(run / "checkpoints", error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().starts_with(".step-")) return true;
  }
  return false;
}

struct KillTally {
  int at_times = 0, at_calls = 0, while_writing = 0, of_resumed = 0;
  int kills() const { return at_times + at_calls; }
};

// Kills the runs of one arrangement.
class KilledRuns {
 public:
  KilledRuns(const Arrangement& arrangement, uint64_t seed)
      : arrangement_(arrangement),
        runs_(arrangement, kill_run_length, folder_.path()),
        draw_(seed) {
    const auto begin = Clock::now();
    EXPECT_EQ(Process(runs_.command(folder_ / "straight")).wait(), 0);
    duration_ = std::chrono::duration_cast<microseconds>(Clock::now() - begin);
    expected_ = runs_.outcome(folder_ / "straight");
    calls_ = runs_.count_calls(folder_ / "counted");
    EXPECT_TRUE(runs_.outcome(folder_ / "counted") == expected_);
  }

  // Until as many runs were killed as `wanted`; each is then resumed to its end. Now and then the
  // resumed run is killed, too.
  KillTally kill_runs(int wanted) {
    for (int trial = 0; tally_.kills() < wanted && !::testing::Test::HasFailure(); ++trial) {
      SCOPED_TRACE(arrangement_.name + ", trial " + std::to_string(trial));
      const fs::path run = folder_ / ("run-" + std::to_string(trial)), output = folder_ / "output";
      while (is_killed(run) && below(4) == 0) continue;
      EXPECT_EQ(Process(runs_.command(run), output).wait(), 0) << testing::content_of(output);
      EXPECT_TRUE(runs_.outcome(run) == expected_);
      fs::remove_all(run);
      fs::remove(output);
    }
    return tally_;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(draw_() % static_cast<uint64_t>(n)); }

  // Starts or continues a run and kills it. Returns false if it came to its end before that.
  bool is_killed(const fs::path& run) {
    const bool resumed = fs::exists(run / "config.toml");
    // If mpirun is killed, its ranks may outlive it for a while; at calls it is a rank that dies.
    const bool at_time = arrangement_.ranks == 1 && below(2) == 0;
    const bool killed = at_time ? is_killed_in_time(run) : is_killed_at_call(run);
    if (!killed) return false;
    ++(at_time ? tally_.at_times : tally_.at_calls);
    tally_.while_writing += left_half_written(run) ? 1 : 0;
    tally_.of_resumed += resumed ? 1 : 0;
    return true;
  }

  bool is_killed_in_time(const fs::path& run) {
    Process process(runs_.command(run));
    std::this_thread::sleep_for(microseconds(below(duration_.count())));
    process.kill();
    return process.was_killed();
  }

  bool is_killed_at_call(const fs::path& run) {
    const std::string fault = below(2) == 0 ? "kill" : "torn";
    const std::string at = std::to_string(below(calls_));
    Process process(
        runs_.command_with_fault(run, {"BINADE_FAULT=" + fault, "BINADE_FAULT_AT=" + at}));
    process.wait();
    return process.was_killed();
  }

  const testing::TemporaryFolder folder_;
  const Arrangement& arrangement_;
  const ResumableRun runs_;
  std::mt19937_64 draw_;
  microseconds duration_;
  std::string expected_;
  long calls_ = 0;
  KillTally tally_;
};

// As many kills as BINADE_KILLS says (scripts/torture sets it), or `otherwise`.
int kills_wanted(int otherwise) {
  const char* text = std::getenv("BINADE_KILLS");
  return text == nullptr ? otherwise : std::atoi(text);
}

TEST(Kills, ResumeIsTheUninterruptedRun) {
  for (const char* name : {"fp32", "bf16", "fp16", "fp8"})
    EXPECT_GE(KilledRuns(arrangement_named(name), 1).kill_runs(2).kills(), 2);
}

class KillsSlow : public ::testing::TestWithParam<Arrangement> {};

TEST_P(KillsSlow, AThousandTimes) {
  if (const std::string missing = missing_for(GetParam()); !missing.empty())
    GTEST_SKIP() << missing;
  const auto count = static_cast<int>(arrangements().size());
  const auto index = &arrangement_named(GetParam().name) - arrangements().data();
  const int wanted = (kills_wanted(1000) + count - 1) / count;
  const KillTally tally =
      KilledRuns(GetParam(), static_cast<uint64_t>(2 + index)).kill_runs(wanted);
  std::printf(
      "%-28s %5d kills: %5d at random times, %5d at calls; %5d left a half-written "
      "checkpoint, %5d were of resumed runs\n",
      GetParam().name.c_str(), tally.kills(), tally.at_times, tally.at_calls, tally.while_writing,
      tally.of_resumed);
  std::fflush(stdout);
  EXPECT_GE(tally.kills(), wanted);
  EXPECT_GE(tally.while_writing, wanted / 10);
}

INSTANTIATE_TEST_SUITE_P(, KillsSlow, ::testing::ValuesIn(arrangements()), arrangement_test_name);

}  // namespace
}  // namespace binade::cli
