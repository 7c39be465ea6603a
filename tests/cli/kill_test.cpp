#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
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
  int at_times = 0, at_calls = 0, in_start_up = 0, while_writing = 0, of_resumed = 0;
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
    tally_.in_start_up += fs::exists(run) ? 0 : 1;
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
      "%-28s %5d kills: %5d at random times, %5d at calls; %5d before there was a folder, %5d left "
      "a half-written checkpoint, %5d were of resumed runs\n",
      GetParam().name.c_str(), tally.kills(), tally.at_times, tally.at_calls, tally.in_start_up,
      tally.while_writing, tally.of_resumed);
  std::fflush(stdout);
  EXPECT_GE(tally.kills(), wanted);
  EXPECT_GE(tally.while_writing, wanted / 10);
}

INSTANTIATE_TEST_SUITE_P(, KillsSlow, ::testing::ValuesIn(arrangements()), arrangement_test_name);

// --- commands that write something once ---

struct KilledCommand {
  const char* name;
  // TEXT, TOKENIZER and RUN are there before; OUT, with an extension or without, is what it writes.
  const char* arguments;
};

constexpr KilledCommand killed_commands[] = {
    {"tokenizing",
     "train --quiet --resume --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches "
     "1 "
     "--sample 0 --threads 1 --precision fp32 --layer-stats 0 --steps 1 --data TEXT --tokenizer "
     "TOKENIZER --out OUT"},
    {"export", "export --force RUN OUT"},
    {"tokenizer_training", "tokenize train --kind bpe --vocab 280 --data TEXT OUT.model"},
    {"byte_level_tokenizer_training",
     "tokenize train --kind byte-bpe --vocab 300 --data TEXT OUT.json"},
};

// The names below a folder, with the contents of files that are the same each time; of event files
// none.
std::string products_in(const fs::path& folder) {
  std::vector<std::string> all;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator();
       ++at) {
    const fs::path& path = at->path();
    if (path.filename() == "tb") at.disable_recursion_pending();
    const bool is_same = path.extension() == ".safetensors" || path.extension() == ".tokens" ||
                         path.filename() == "tokenizer.json" || path.stem() == "out";
    all.push_back(path.lexically_relative(folder).string() +
                  (is_same && at->is_regular_file() ? "\n" + testing::content_of(path) : ""));
  }
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) text += one + "\n";
  return text;
}

class KilledCommands {
 public:
  KilledCommands(const KilledCommand& command, uint64_t seed) : draw_(seed) {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += "the " + std::to_string(i * 7919) + "th line\n";
    const std::string data = folder_.put("text.txt", text).string();
    const std::string tokenizer = (folder_ / "tokenizer.json").string();
    const std::string run = (folder_ / "run").string();
    finish(words_of("tokenize train --kind byte-bpe --vocab 300 --data " + data + " " + tokenizer));
    finish(
        words_of("train --quiet --layers 1 --width 16 --heads 2 --context 8 --batch 2 --sample 0 "
                 "--eval-batches 1 --steps 1 --precision fp32 --data " +
                 data + " --out " + run));
    words_ = words_of(command.arguments);
    for (std::string& word : words_) {
      if (word == "TEXT") word = data;
      if (word == "TOKENIZER") word = tokenizer;
      if (word == "RUN") word = run;
      if (word.starts_with("OUT")) word = (trial() / "out").string() + word.substr(3);
    }
    fs::create_directory(trial());
    const auto begin = Clock::now();
    finish(words_);
    duration_ = std::chrono::duration_cast<microseconds>(Clock::now() - begin);
    expected_ = products_in(trial());
    start_again();
    const fs::path count = folder_ / "count";
    finish(with_fault({"BINADE_FAULT_COUNT=" + count.string()}));
    calls_ = std::atol(testing::content_of(count).c_str());
    EXPECT_GT(calls_, 0);
  }

  // Half of them at random times. What was killed leaves all or nothing under the name that was
  // asked for, and the same command, given again, the same as without a kill.
  void kill(int wanted) {
    for (int kills = 0, trial_index = 0; kills < wanted && !::testing::Test::HasFailure();
         ++trial_index) {
      SCOPED_TRACE(trial_index);
      start_again();
      const bool at_time = below(2) == 0;
      Process process(at_time
                          ? words_
                          : with_fault({below(2) == 0 ? "BINADE_FAULT=kill" : "BINADE_FAULT=torn",
                                        "BINADE_FAULT_AT=" + std::to_string(below(calls_))}));
      if (at_time) {
        std::this_thread::sleep_for(microseconds(below(duration_.count())));
        process.kill();
      }
      process.wait();
      kills += process.was_killed() ? 1 : 0;
      finish(words_);
      EXPECT_TRUE(products_in(trial()) == expected_) << products_in(trial());
    }
  }

 private:
  static std::vector<std::string> words_of(const std::string& arguments) {
    std::istringstream stream(BINADE_EXECUTABLE " " + arguments);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }
  void finish(const std::vector<std::string>& words) const {
    const fs::path output = folder_ / "output";
    EXPECT_EQ(Process(words, output).wait(), 0) << testing::content_of(output);
  }
  std::vector<std::string> with_fault(const std::vector<std::string>& variables) const {
    std::vector<std::string> words = {"/usr/bin/env", "LD_PRELOAD=" BINADE_FAIL_CALLS,
                                      "BINADE_FAULT_ROOT=" + trial().string()};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), words_.begin(), words_.end());
    return words;
  }
  fs::path trial() const { return folder_ / "trial"; }
  void start_again() const {
    fs::remove_all(trial());
    fs::create_directory(trial());
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(draw_() % static_cast<uint64_t>(n)); }

  const testing::TemporaryFolder folder_;
  std::vector<std::string> words_;
  std::mt19937_64 draw_;
  microseconds duration_;
  std::string expected_;
  long calls_ = 0;
};

TEST(Kills, CommandsLeaveAllOrNothing) {
  for (const KilledCommand& command : killed_commands) {
    SCOPED_TRACE(command.name);
    KilledCommands(command, 1).kill(2);
  }
}

class CommandKillsSlow : public ::testing::TestWithParam<KilledCommand> {};

TEST_P(CommandKillsSlow, LeaveAllOrNothing) {
  const int wanted = (kills_wanted(1000) + 9) / 10;
  KilledCommands(GetParam(), 2).kill(wanted);
  std::printf("%-28s %5d kills\n", GetParam().name, wanted);
  std::fflush(stdout);
}

INSTANTIATE_TEST_SUITE_P(, CommandKillsSlow, ::testing::ValuesIn(killed_commands),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace binade::cli
