#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "cli/process.h"
#include "cli/resumable_run.h"
#include "io/temporary_folder.h"

// A fault at each system call of a run that changes files: a failure, an interruption, a short
// write, kill -9, a power cut. However the run ends, resuming it gives the uninterrupted run.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* faults[] = {"kill", "cut", "ENOSPC", "EIO", "EINTR", "short"};

// A run with the preloaded library of tests/preload/fail_calls.cpp.
int run_with_fault(const std::vector<std::string>& command, const fs::path& root,
                   const std::vector<std::string>& variables, const fs::path& output) {
  std::vector<std::string> words = {"/usr/bin/env", "LD_PRELOAD=" BINADE_FAIL_CALLS,
                                    "BINADE_FAULT_ROOT=" + root.string()};
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), command.begin(), command.end());
  return Process(words, output).wait();
}

struct Tally {
  int runs = 0, ended = 0;  // ended: before their last step
};

// Faults at every `stride`-th call, of each kind in turn, beginning with `kind`.
std::map<std::string, Tally> torture(const Arrangement& arrangement, long stride, size_t kind) {
  const testing::TemporaryFolder folder;
  const ResumableRun runs(arrangement, {.steps = 6, .checkpoint_every = 2}, folder.path());
  EXPECT_EQ(Process(runs.command(folder / "straight")).wait(), 0);
  const std::string expected = runs.outcome(folder / "straight");
  const fs::path count = folder / "count", output = folder / "output";
  EXPECT_EQ(run_with_fault(runs.command(folder / "counted"), folder / "counted",
                           {"BINADE_FAULT_COUNT=" + count.string()}, output),
            0)
      << testing::content_of(output);
  EXPECT_TRUE(runs.outcome(folder / "counted") == expected);
  const long calls = std::atol(testing::content_of(count).c_str());
  EXPECT_GT(calls, 50);

  std::map<std::string, Tally> tallies;
  for (long at = stride / 2; at < calls && !::testing::Test::HasFailure(); at += stride) {
    const std::string fault = faults[kind++ % std::size(faults)];
    SCOPED_TRACE(arrangement.name + ": " + fault + " at call " + std::to_string(at));
    const fs::path run = folder / "run";
    const int status =
        run_with_fault(runs.command(run), run,
                       {"BINADE_FAULT=" + fault, "BINADE_FAULT_AT=" + std::to_string(at)}, output);
    // Interruptions and short writes are no failures.
    if (fault == "EINTR" || fault == "short") {
      EXPECT_EQ(status, 0) << testing::content_of(output);
    } else if (fault == "ENOSPC" || fault == "EIO") {
      EXPECT_THAT(status, ::testing::AnyOf(0, 2)) << testing::content_of(output);
    }
    if (status != 0) {
      EXPECT_EQ(Process(runs.command(run), output).wait(), 0) << testing::content_of(output);
    }
    EXPECT_TRUE(runs.outcome(run) == expected) << testing::content_of(output);
    for (const auto& entry : fs::directory_iterator(run / "checkpoints"))
      EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << entry.path();
    ++tallies[fault].runs;
    tallies[fault].ended += status == 0 ? 0 : 1;
    fs::remove_all(run);
    fs::remove(output);
  }
  return tallies;
}

TEST(Torture, AFaultAtAFewSystemCallsLosesNothing) { torture(arrangement_named("fp16"), 29, 0); }

// The distance between calls with a fault: BINADE_TORTURE_STRIDE, which scripts/torture sets, or 1.
long stride_wanted() {
  const char* text = std::getenv("BINADE_TORTURE_STRIDE");
  return text == nullptr ? 1 : std::max(1L, std::atol(text));
}

class TortureSlow : public ::testing::TestWithParam<Arrangement> {};

// Every call meets one kind of fault in each arrangement, and each kind in some.
TEST_P(TortureSlow, AFaultAtEverySystemCallLosesNothing) {
  const auto first_kind =
      static_cast<size_t>(&arrangement_named(GetParam().name) - arrangements().data());
  for (const auto& [fault, tally] : torture(GetParam(), stride_wanted(), first_kind)) {
    std::printf("%-28s %-7s %5d runs, %5d ended by it\n", GetParam().name.c_str(), fault.c_str(),
                tally.runs, tally.ended);
  }
  std::fflush(stdout);
}

INSTANTIATE_TEST_SUITE_P(, TortureSlow, ::testing::ValuesIn(arrangements()), arrangement_test_name);

}  // namespace
}  // namespace binade::cli
