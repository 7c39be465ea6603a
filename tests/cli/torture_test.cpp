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

constexpr const char* faults[] = {"kill", "torn", "cut", "ENOSPC", "EIO", "EINTR", "short"};

struct FaultTally {
  int runs = 0, ended = 0;  // ended: before their last step
};

// Runs of one arrangement with a fault each.
class FaultyRuns {
 public:
  explicit FaultyRuns(const Arrangement& arrangement)
      : arrangement_(arrangement), runs_(arrangement, length, folder_.path()) {
    EXPECT_EQ(Process(runs_.command(folder_ / "straight")).wait(), 0);
    expected_ = runs_.outcome(folder_ / "straight");
    calls_ = runs_.count_calls(folder_ / "counted");
    EXPECT_TRUE(runs_.outcome(folder_ / "counted") == expected_);
    EXPECT_GT(calls_, 50);
  }

  // At every `stride`-th call; `kinds` of `faults` at each, from `first_kind` on and in turn.
  std::map<std::string, FaultTally> run(long stride, size_t first_kind, size_t kinds) {
    size_t kind = first_kind;
    for (long at = stride / 2; at < calls_ && !::testing::Test::HasFailure(); at += stride, ++kind)
      for (size_t i = 0; i < kinds; ++i) run_with(faults[(kind + i) % std::size(faults)], at, "");
    return tallies_;
  }

  // At every call on files whose names begin with `name`. Returns how many calls there were.
  long run_on(const std::string& name, const std::string& fault) {
    long at = 0;
    while (!::testing::Test::HasFailure() && run_with(fault, at, name) != 0) ++at;
    return at;
  }

 private:
  static constexpr RunLength length{.steps = 6, .checkpoint_every = 2};

  // A fault at one of the calls on files whose names begin with `name`. Returns the exit code.
  int run_with(const std::string& fault, long at, const std::string& name) {
    SCOPED_TRACE(arrangement_.name + ": " + fault + " at call " + std::to_string(at) + " " + name);
    const fs::path run = folder_ / "run", output = folder_ / "output";
    const int status =
        Process(runs_.command_with_fault(
                    run, {"BINADE_FAULT_ROOT=" + (name.empty() ? run : run / name).string(),
                          "BINADE_FAULT=" + fault, "BINADE_FAULT_AT=" + std::to_string(at)}),
                output)
            .wait();
    // Interruptions and short writes are no failures.
    if (fault == "EINTR" || fault == "short") {
      EXPECT_EQ(status, 0) << testing::content_of(output);
    } else if (fault == "ENOSPC" || fault == "EIO") {
      EXPECT_THAT(status, ::testing::AnyOf(0, 2)) << testing::content_of(output);
    }
    if (status != 0) {
      EXPECT_EQ(Process(runs_.command(run), output).wait(), 0) << testing::content_of(output);
    }
    EXPECT_TRUE(runs_.outcome(run) == expected_) << testing::content_of(output);
    for (const auto& entry : fs::directory_iterator(run / "checkpoints"))
      EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << entry.path();
    ++tallies_[fault].runs;
    tallies_[fault].ended += status == 0 ? 0 : 1;
    fs::remove_all(run);
    fs::remove(output);
    return status;
  }

  const testing::TemporaryFolder folder_;
  const Arrangement& arrangement_;
  const ResumableRun runs_;
  std::string expected_;
  long calls_ = 0;
  std::map<std::string, FaultTally> tallies_;
};

TEST(Torture, AFaultAtAFewSystemCallsLosesNothing) {
  FaultyRuns(arrangement_named("fp16")).run(29, 0, 1);
}

// The checkpoint that a run saves before it ends has the step: its diagnosis must not be missing.
TEST(Torture, AStepIsCompleteIfItsRecordCannotBeWritten) {
  FaultyRuns runs(arrangement_named("fp16"));
  EXPECT_GE(runs.run_on("metrics.jsonl", "EIO"), 7);  // a record of each step
}

// A positive number from the environment, which scripts/torture sets, or 1.
long positive_variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 1 : std::max(1L, std::atol(text));
}

class TortureSlow : public ::testing::TestWithParam<Arrangement> {};

// By default every call meets one kind of fault in each arrangement, and each kind in some.
TEST_P(TortureSlow, AFaultAtEverySystemCallLosesNothing) {
  if (const std::string missing = missing_for(GetParam()); !missing.empty())
    GTEST_SKIP() << missing;
  const auto first_kind =
      static_cast<size_t>(&arrangement_named(GetParam().name) - arrangements().data());
  const auto kinds =
      std::min(static_cast<size_t>(positive_variable("BINADE_TORTURE_KINDS")), std::size(faults));
  FaultyRuns runs(GetParam());
  for (const auto& [fault, tally] :
       runs.run(positive_variable("BINADE_TORTURE_STRIDE"), first_kind, kinds)) {
    std::printf("%-28s %-7s %5d runs, %5d ended by it\n", GetParam().name.c_str(), fault.c_str(),
                tally.runs, tally.ended);
  }
  std::fflush(stdout);
}

INSTANTIATE_TEST_SUITE_P(, TortureSlow, ::testing::ValuesIn(arrangements()), arrangement_test_name);

}  // namespace
}  // namespace binade::cli
