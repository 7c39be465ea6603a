#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "cli/command.h"
#include "cli/process.h"
#include "io/temporary_folder.h"
#include "support/paths.h"

// What ends or disturbs a run from outside: signals, limits, closed streams, other processes,
// changed files. Its work is saved each time.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr const char* tiny_model =
    " --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --eval-every 0 "
    "--sample 0 --threads 1 --precision fp32 --layer-stats 0 --log-every 1 --warmup 0 ";
constexpr const char* endless = " --steps 100000000 --checkpoint-every 0";

std::vector<std::string> words_of(const std::string& arguments) {
  std::vector<std::string> words = {BINADE_EXECUTABLE};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

int64_t logged_steps(const fs::path& run) {
  std::ifstream log(run / "metrics.jsonl");
  int64_t lines = -1;  // step 0
  for (std::string line; std::getline(log, line);) ++lines;
  return lines;
}

// The steps of a run's checkpoints, ascending.
std::vector<int64_t> saved_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(run / "checkpoints", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("step-")) steps.push_back(std::stoll(name.substr(5)));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Inspecting a checkpoint compares every file with its manifest.
void expect_complete(const fs::path& run, int64_t step) {
  const std::string path = (run / "checkpoints/step-").string() + std::to_string(step);
  const Outcome outcome = binade("inspect " + quoted(path));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

// Waits until `ready` or the process has ended; the sleep only spares the processor.
bool reached(Process& process, const std::function<bool()>& ready) {
  while (!ready()) {
    if (!process.running()) return ready();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A run without end, past its third step.
class EndlessRun {
 public:
  explicit EndlessRun(const std::string& more = {})
      : process_(words_of("train --out " + path().string() + tiny_model + endless + more),
                 folder_ / "output") {
    EXPECT_TRUE(reached(process_, [&] { return logged_steps(path()) >= 3; })) << output();
  }
  fs::path path() const { return folder_ / "run"; }
  Process& process() { return process_; }
  std::string output() const { return testing::content_of(folder_ / "output"); }
  std::vector<int64_t> checkpoints() const { return saved_steps(path()); }
  // The newest checkpoint is complete, and the run continues from it.
  void expect_saved() const {
    ASSERT_FALSE(checkpoints().empty()) << output();
    const int64_t newest = checkpoints().back();
    EXPECT_GE(newest, 3);
    expect_complete(path(), newest);
    const Outcome more = binade("train --resume --out " + path().string() + " --steps " +
                                std::to_string(newest + 2));
    EXPECT_EQ(more.status, 0) << more.err;
    EXPECT_THAT(more.out, HasSubstr("resuming at step " + std::to_string(newest)));
  }

 private:
  TemporaryFolder folder_;
  Process process_;
};

TEST(InterruptedRun, SignalsSaveAndTellTheExitCode) {
  const std::pair<int, int> table[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}};
  for (const auto& [signal, code] : table) {
    EndlessRun run;
    run.process().send(signal);
    EXPECT_EQ(run.process().wait(), code) << run.output();
    EXPECT_THAT(run.output(), HasSubstr("--resume"));
    run.expect_saved();
  }
}

// A scheduler may send SIGTERM to the process and to its group, a closing terminal SIGHUP twice.
TEST(InterruptedRun, RepeatedTerminationStillSaves) {
  EndlessRun run;
  for (int i = 0; i < 20; ++i) run.process().send(i % 2 == 0 ? SIGTERM : SIGHUP);
  EXPECT_THAT(run.process().wait(), ::testing::AnyOf(143, 129)) << run.output();
  run.expect_saved();
}

TEST(InterruptedRun, AUserSignalSavesAndTrainingContinues) {
  EndlessRun run;
  run.process().send(SIGUSR1);
  ASSERT_TRUE(reached(run.process(), [&] { return !run.checkpoints().empty(); })) << run.output();
  const int64_t saved = run.checkpoints().back(), logged = logged_steps(run.path());
  EXPECT_TRUE(reached(run.process(), [&] { return logged_steps(run.path()) > logged; }));
  EXPECT_TRUE(run.process().running());
  run.process().send(SIGTERM);
  EXPECT_EQ(run.process().wait(), 143);
  EXPECT_GT(run.checkpoints().back(), saved);
}

TEST(InterruptedRun, ATimeLimitSaves) {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  const Outcome outcome = binade("train --time-limit 0.5 --out " + out + tiny_model + endless);
  EXPECT_EQ(outcome.status, 124) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("--resume"));
  ASSERT_FALSE(saved_steps(folder / "run").empty());
  // The limit is that of one process, not of the run.
  EXPECT_THAT(testing::content_of(folder / "run/config.toml"),
              ::testing::Not(HasSubstr("time_limit")));
}

TEST(InterruptedRun, ClosedStreamsLoseNothing) {
  for (const char* closed : {">&-", "2>&-", "<&-", ">&- 2>&- <&-"}) {
    SCOPED_TRACE(closed);
    const TemporaryFolder folder;
    const std::string out = (folder / "run").string();
    const Outcome outcome = run_shell(quoted(BINADE_EXECUTABLE) + " train --steps 4 --out " + out +
                                      tiny_model + closed);
    // A closed standard output is an error of the output, as for every other command.
    EXPECT_EQ(outcome.status, closed[0] == '>' ? 1 : 0);
    EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-4"));
    EXPECT_TRUE(fs::exists(folder / "run/report.html"));
    for (const auto& entry : fs::recursive_directory_iterator(folder / "run")) {
      const fs::path& path = entry.path();
      const bool of_text = path.filename() == "report.html" || path.extension() == ".toml";
      if (entry.is_regular_file() && !of_text) {
        EXPECT_THAT(testing::content_of(path), ::testing::Not(HasSubstr("tok/s"))) << path;
      }
    }
  }
}

TEST(InterruptedRun, AReaderThatGoesAwayLosesNothing) {
  const TemporaryFolder folder;
  const Outcome outcome = run_shell(quoted(BINADE_EXECUTABLE) + " train --steps 300 --out " +
                                    (folder / "run").string() + tiny_model + " | true");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-300"));
}

TEST(InterruptedRun, AFileSizeLimitIsAnErrorNotASignal) {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  ASSERT_EQ(binade("train --steps 2 --out " + out + tiny_model).status, 0);
  const Outcome outcome = run_shell("ulimit -f 8; " + quoted(BINADE_EXECUTABLE) +
                                    " train --resume --steps 4 --out " + out);
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  expect_complete(folder / "run", 2);
}

// Before the first step, and in commands that do not train.
TEST(InterruptedRun, AFileSizeLimitIsAnErrorEverywhere) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  ASSERT_EQ(binade("train --steps 1 --out " + (folder / "run").string() + tiny_model).status, 0);
  for (const std::string& arguments :
       {"train --steps 2 --out " + out + tiny_model,
        "tokenize train --vocab 400 --data " + (test::source_dir() / "README.md ").string() + out,
        "export " + (folder / "run").string() + " " + out}) {
    const Outcome outcome =
        run_shell("ulimit -f 1; " + quoted(BINADE_EXECUTABLE) + " " + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("File too large")) << arguments;
    fs::remove_all(out);
  }
}

// Whether a process handles a signal.
bool catches(pid_t pid, int signal) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("SigCgt:"))
      return ((std::stoull(line.substr(7), nullptr, 16) >> (signal - 1)) & 1) != 0;
  }
  return false;
}

// From the first moment a program can, to its last.
TEST(InterruptedRun, RequestsForCheckpointsEndNothing) {
  const TemporaryFolder folder;
  Process process(words_of("train --steps 5 --checkpoint-every 0 --out " +
                           (folder / "run").string() + tiny_model));
  ASSERT_TRUE(reached(process, [&] { return catches(process.pid(), SIGUSR1); }));
  EXPECT_FALSE(fs::exists(folder / "run")) << "it is caught before the run begins";
  while (process.running()) process.send(SIGUSR1);
  EXPECT_EQ(process.wait(), 0);
}

TEST(InterruptedRun, ASecondProcessIsRefusedAndReadersAreNot) {
  EndlessRun run;
  const std::string out = run.path().string();
  const std::string pid = std::to_string(run.process().pid());
  for (const std::string arguments : {"train --resume --out ", "train --steps 3 --out "}) {
    const Outcome outcome = binade(arguments + out);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    if (arguments.find("--resume") != std::string::npos) {
      EXPECT_THAT(outcome.err, AllOf(HasSubstr("process " + pid + " on "), HasSubstr("in use")));
    }
  }
  EXPECT_EQ(binade("report " + out).status, 0);
  run.process().send(SIGUSR1);
  ASSERT_TRUE(reached(run.process(), [&] { return !run.checkpoints().empty(); }));
  EXPECT_EQ(binade("inspect " + out).status, 0);
  run.process().send(SIGTERM);
  EXPECT_EQ(run.process().wait(), 143);
  run.expect_saved();
}

// Whoever comes first has the folder; the lock goes with the process, however it ends.
TEST(InterruptedRun, ProcessesThatStartTogetherShareNoFolder) {
  const TemporaryFolder folder;
  const std::string train = "train --steps 20 --out " + (folder / "run").string() + tiny_model;
  Process first(words_of(train)), second(words_of(train));
  const int a = first.wait(), b = second.wait();
  EXPECT_EQ(std::min(a, b), 0);
  EXPECT_EQ(std::max(a, b), 2);
  EXPECT_EQ(logged_steps(folder / "run"), 20);
}

TEST(InterruptedRun, ARemovedFolderEndsTheRunWhichSavesItsState) {
  EndlessRun run;
  run.process().stop();  // a process that goes on writes into the folder that is being removed
  fs::remove_all(run.path());
  run.process().send(SIGCONT);
  EXPECT_EQ(run.process().wait(), 2) << run.output();
  EXPECT_THAT(run.output(), HasSubstr("it was removed while the run wrote to it"));
  EXPECT_THAT(run.output(), HasSubstr("--resume --out " + run.path().string()));
  run.expect_saved();
}

// Another folder of its name is not the run's.
TEST(InterruptedRun, ARemovedFolderWhoseNameIsTakenIsSavedBesideIt) {
  EndlessRun run;
  const fs::path other = run.path().string() + "-other";
  fs::create_directory(other);
  std::ofstream(other / "notes") << "notes";
  // The other folder takes the place at once.
  ASSERT_EQ(::renameat2(AT_FDCWD, run.path().c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE), 0);
  ASSERT_EQ(::unlink((other / "run.json").c_str()), 0);
  EXPECT_EQ(run.process().wait(), 2) << run.output();
  EXPECT_EQ(std::distance(fs::directory_iterator(run.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(testing::content_of(run.path() / "notes"), "notes");
  EXPECT_THAT(run.output(), ::testing::ContainsRegex("--resume --out [^ ]*run(-other)?-2'"));
}

// All of it goes on in the folder where that is, and nothing under its old name.
TEST(InterruptedRun, ARenamedFolderIsWrittenWhereItIsNow) {
  const testing::TemporaryFolder elsewhere;
  const std::string tokenizer = (elsewhere / "tokenizer.json").string();
  ASSERT_EQ(binade("tokenize train --kind byte-bpe --vocab 300 --data builtin " + tokenizer).status,
            0);
  EndlessRun run(" --keep-best --tokenizer " + tokenizer);
  fs::remove(tokenizer);  // the run has a copy
  const fs::path moved = elsewhere / "moved";
  fs::rename(run.path(), moved);
  const int64_t logged = logged_steps(moved);
  EXPECT_TRUE(reached(run.process(), [&] { return logged_steps(moved) > logged + 3; }))
      << run.output();
  run.process().send(SIGUSR1);
  EXPECT_TRUE(reached(run.process(), [&] { return !saved_steps(moved).empty(); })) << run.output();
  run.process().send(SIGTERM);
  EXPECT_EQ(run.process().wait(), 143) << run.output();
  EXPECT_FALSE(fs::exists(run.path()));
  EXPECT_THAT(run.output(), AllOf(HasSubstr("the run's folder was renamed"),
                                  HasSubstr("--resume --out " + moved.string())));
  const int64_t last = saved_steps(moved).back();
  EXPECT_EQ(logged_steps(moved), last);
  expect_complete(moved, last);
  EXPECT_TRUE(fs::exists(moved / "report.html"));
  const Outcome more = binade("train --quiet --resume --out " + moved.string() + " --steps " +
                              std::to_string(last + 2));
  EXPECT_EQ(more.status, 0) << more.err;
}

// A run that is killed before it has saved anything leaves nothing that is in the way.
TEST(InterruptedRun, AStartThatWasKilledIsStartedByResume) {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  const Outcome nothing = binade("train --resume --out " + out);
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, AllOf(HasSubstr("a run in that folder"), HasSubstr("add its options")));
  EXPECT_FALSE(fs::exists(out));
  const std::string start = "train --quiet --resume --steps 2 --out " + out + tiny_model;
  EXPECT_EQ(binade(start).status, 0);
  EXPECT_EQ(logged_steps(out), 2);
  // The same line continues the run that there is now.
  EXPECT_EQ(binade("train --quiet --resume --steps 4 --out " + out + tiny_model).status, 0);
  EXPECT_EQ(logged_steps(out), 4);
}

// At every call that changes files before the first step: the folder is complete or not there.
TEST(InterruptedRun, AFolderAppearsComplete) {
  bool started = false;
  for (int at = 0; !started; ++at) {
    SCOPED_TRACE(at);
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const std::string train = "train --quiet --steps 1 --out " + run.string() + tiny_model;
    std::vector<std::string> words = {"/usr/bin/env", "LD_PRELOAD=" BINADE_FAIL_CALLS,
                                      "BINADE_FAULT=kill", "BINADE_FAULT_ROOT=" + run.string(),
                                      "BINADE_FAULT_AT=" + std::to_string(at)};
    for (const std::string& word : words_of(train)) words.push_back(word);
    EXPECT_EQ(Process(words).wait(), 128 + SIGKILL);
    started = fs::exists(run);
    if (started) {
      for (const char* name : {".lock", "config.toml", "run.json", "checkpoints"})
        EXPECT_TRUE(fs::exists(run / name)) << name;
      EXPECT_EQ(binade("train --quiet --resume --out " + run.string()).status, 0);
    } else {
      EXPECT_EQ(binade(train).status, 0);
    }
    EXPECT_EQ(logged_steps(run), 1);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
    ASSERT_LT(at, 100);
  }
}

TEST(InterruptedRun, OtherDataAreRefused) {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i * i) + "\n";
  const std::string data = folder.put("data.txt", text).string();
  ASSERT_EQ(binade("train --steps 2 --data " + data + " --out " + out + tiny_model).status, 0);
  std::ofstream(data, std::ios::app) << "and more\n";
  const Outcome grown = binade("train --resume --steps 4 --out " + out);
  EXPECT_EQ(grown.status, 2);
  EXPECT_THAT(grown.err, AllOf(HasSubstr("the data " + data), HasSubstr("--allow-changes data")));
  text[100] ^= 1;
  folder.put("data.txt", text);
  EXPECT_EQ(binade("train --resume --steps 4 --out " + out).status, 2);
  const Outcome allowed = binade("train --resume --steps 4 --allow-changes --out " + out);
  EXPECT_EQ(allowed.status, 0) << allowed.err;
  EXPECT_THAT(allowed.err, HasSubstr("warning: data: that of the checkpoint was"));
}

TEST(InterruptedRun, ChangedSettingsAndArithmeticAreRefused) {
  const TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  ASSERT_EQ(binade("train --steps 2 --out " + out + tiny_model).status, 0);
  const auto resume = [&](const std::string& options, const std::string& environment = {}) {
    return run_shell(environment + " " + quoted(BINADE_EXECUTABLE) + " train --resume --quiet " +
                     options + " --steps 4 --out " + out);
  };
  const std::pair<const char*, const char*> table[] = {
      {"--batch 3 --seed 7", "batch, seed: expected batch 2, seed 0, with which"},
      {"--reduce-dtype bf16", "reduce-dtype: expected f32"},
      {"--order any", "order: expected fixed"},
      {"--lr 0.5", "lr: expected 0.003"},
      {"--accumulate 2", "--allow-changes accumulate to continue"},
      {"--allow-changes batch --batch 3 --seed 7", "seed: expected 0"},
      {"--allow-changes batch,sead", "did you mean seed"},
      {"--layers 3", "layers: expected 1"},
      {"--optimizer lion", "optimizer: expected adamw"},
      {"--allow-changes optimizer --optimizer lion", "optimizer: expected adamw"},
      {"--precision bf16 --params masters", "params: expected autocast"},
      {"--moments 8bit", "moments: expected f32"},
      {"--precision fp16", "--init-from"}};
  for (const auto& [options, message] : table) {
    const Outcome refused = resume(options);
    EXPECT_EQ(refused.status, 2) << options;
    EXPECT_THAT(refused.err, HasSubstr(message));
  }
  const Outcome portable = resume("", "BINADE_CPU=portable");
  EXPECT_EQ(portable.status, 2);
  EXPECT_THAT(portable.err,
              AllOf(HasSubstr("found cpu portable"), HasSubstr("--allow-changes arithmetic")));
  expect_complete(folder / "run", 2);
  const Outcome outcome =
      resume("--batch 3 --seed 7 --allow-changes batch,seed,arithmetic", "BINADE_CPU=portable");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("warning: batch: the checkpoint was written with 2, this run has 3"),
                    HasSubstr("warning: seed: "), HasSubstr("this is cpu portable")));
}

TEST(InterruptedRun, ATokenFileThatIsCutSavesWhatWasTrained) {
  const TemporaryFolder folder;
  const std::string ids(2 << 20, '\1');  // 16-bit ids, 257 each
  const fs::path data = folder.put("data.bin", ids);
  const fs::path path = folder / "run";
  Process process(words_of("train --vocab 300 --data " + data.string() + " --out " + path.string() +
                           tiny_model + endless),
                  folder / "output");
  ASSERT_TRUE(reached(process, [&] { return logged_steps(path) >= 3; }))
      << testing::content_of(folder / "output");
  fs::resize_file(data, 0);
  EXPECT_EQ(process.wait(), 2);
  EXPECT_THAT(testing::content_of(folder / "output"),
              AllOf(HasSubstr("data.bin"), HasSubstr("was shortened")));
  const auto checkpoints = saved_steps(path);
  ASSERT_FALSE(checkpoints.empty());
  expect_complete(path, checkpoints.back());
  // With the file back, the run continues.
  folder.put("data.bin", ids);
  EXPECT_EQ(binade("train --quiet --resume --steps " + std::to_string(checkpoints.back() + 1) +
                   " --out " + path.string())
                .status,
            0);
}

}  // namespace
}  // namespace binade::cli
