#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "io/temporary_folder.h"

// kill -9 at random times, also while a checkpoint is being written: the resumed run ends as the
// uninterrupted one does, byte for byte. The waits are part of the test: they set the times.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int steps = 24, checkpoint_every = 3;

// A run of the program in a separate process.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments) : pid_(::fork()) {
    if (pid_ != 0) return;
    std::vector<char*> words;
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ~Process() {
    if (running()) kill();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running() {
    return status_ < 0 && (::waitpid(pid_, &raw_, WNOHANG) == 0 || (finish(), false));
  }
  int wait() {
    if (status_ < 0 && ::waitpid(pid_, &raw_, 0) == pid_) finish();
    return status_;
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  bool was_killed() const { return status_ == 128 + SIGKILL; }

 private:
  void finish() { status_ = WIFEXITED(raw_) ? WEXITSTATUS(raw_) : 128 + WTERMSIG(raw_); }

  pid_t pid_;
  int raw_ = 0;
  int status_ = -1;
};

std::vector<std::string> command(const fs::path& out, const std::string& precision) {
  std::vector<std::string> words = {BINADE_EXECUTABLE, "train", "--quiet", "--out", out.string()};
  // Killed before its configuration was saved, a run starts anew.
  if (fs::exists(out / "config.toml")) {
    words.push_back("--resume");
    return words;
  }
  const std::string options =
      "--layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --eval-every 5 "
      "--sample 0 --threads 1 --accumulate 2 --fp8-history 4 --scale-growth-interval 4 "
      "--scale-init 1e9 --keep 2 --steps " +
      std::to_string(steps) + " --checkpoint-every " + std::to_string(checkpoint_every) +
      " --precision " + precision;
  std::istringstream stream(options);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool is_writing(const fs::path& run, int64_t step) {
  return fs::exists(run / "checkpoints" / (".step-" + std::to_string(step) + ".tmp"));
}

bool has_half_a_checkpoint(const fs::path& run) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error)) {
    if (entry.path().filename().string().starts_with(".step-")) return true;
  }
  return false;
}

// Weights, moments and the rest of the trainer's state, and the log but for its times and memory.
std::string outcome(const fs::path& run) {
  const fs::path last = run / "checkpoints" / ("step-" + std::to_string(steps));
  std::string all = testing::content_of(last / "model.safetensors") +
                    testing::content_of(last / "trainer.safetensors");
  std::ifstream log(run / "metrics.jsonl");
  for (std::string line; std::getline(log, line);) {
    auto record = nlohmann::json::parse(line);
    for (const char* name : {"tokens_per_second", "memory", "seconds"}) record.erase(name);
    all += record.dump() + "\n";
  }
  return all;
}

struct Tally {
  int kills = 0, while_writing = 0;
};

// Kills until it has hit `wanted` times, each in a run that is then resumed to its end; now and
// then the resumed run is killed too.
Tally kill_runs(const std::string& precision, int wanted, uint64_t seed) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 draw(seed);
  const auto below = [&draw](int64_t n) {
    return static_cast<int64_t>(draw() % static_cast<uint64_t>(n));
  };
  const auto begin = Clock::now();
  EXPECT_EQ(Process(command(folder / "straight", precision)).wait(), 0);
  const auto whole = std::chrono::duration_cast<microseconds>(Clock::now() - begin).count();
  const std::string expected = outcome(folder / "straight");

  Tally tally;
  for (int trial = 0; tally.kills < wanted && !::testing::Test::HasFailure(); ++trial) {
    const fs::path run = folder / ("run-" + std::to_string(trial));
    bool again = true;
    while (again) {
      Process process(command(run, precision));
      if (below(2) == 0) {
        std::this_thread::sleep_for(microseconds(below(whole)));
      } else {
        const int64_t step = checkpoint_every * (1 + below(steps / checkpoint_every));
        while (process.running() && !is_writing(run, step)) std::this_thread::yield();
        std::this_thread::sleep_for(microseconds(below(4000)));
      }
      process.kill();
      if (process.was_killed()) {
        ++tally.kills;
        tally.while_writing += has_half_a_checkpoint(run) ? 1 : 0;
      }
      again = process.was_killed() && below(4) == 0;
    }
    EXPECT_EQ(Process(command(run, precision)).wait(), 0) << "trial " << trial;
    EXPECT_TRUE(outcome(run) == expected) << precision << ", trial " << trial;
    fs::remove_all(run);
  }
  return tally;
}

constexpr const char* precisions[] = {"fp32", "bf16", "fp16", "fp8"};

TEST(Kills, ResumeIsTheUninterruptedRun) {
  for (const char* precision : precisions) EXPECT_GE(kill_runs(precision, 2, 1).kills, 2);
}

TEST(KillsSlow, TwoHundredTimes) {
  Tally all;
  for (const char* precision : precisions) {
    const Tally tally = kill_runs(precision, 50, 2);
    all.kills += tally.kills;
    all.while_writing += tally.while_writing;
    std::printf("%s: %d kills, %d of them while a checkpoint was being written\n", precision,
                tally.kills, tally.while_writing);
  }
  EXPECT_GE(all.kills, 200);
  EXPECT_GE(all.while_writing, 20);
}

}  // namespace
}  // namespace binade::cli
