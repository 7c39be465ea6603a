#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/rank_starter.h"
#include "binade/cli/supervisor.h"
#include "binade/cli/values.h"
#include "binade/io/model_folder.h"
#include "binade/ranks/communicator.h"

namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct LaunchArguments {
  int ranks = 0;
  int restarts = 0;
};

// Without it, ranks are started here, and talk by TCP.
bool has_mpirun() {
  if (ranks::mpi_version().empty()) return false;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((fs::path(folder) / "mpirun").c_str(), X_OK) == 0) return true;
  }
  return false;
}

Words mpirun(int ranks) {
  Words words{"mpirun", "-n", std::to_string(ranks)};
  // Options of Open MPI: as many ranks as asked for, with threads on any core.
  if (ranks::mpi_version().starts_with("Open MPI")) {
    for (const char* word : {"--oversubscribe", "--bind-to", "none"}) words.emplace_back(word);
    if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  return words;
}

// The value of --out among the words, if it is there.
std::optional<fs::path> out_of(const Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--out=")) return words[i].substr(6);
    if (words[i] == "--out" && i + 1 < words.size()) return words[i + 1];
  }
  return {};
}

// -1 if there is none.
int64_t newest_step(const fs::path& run) {
  const std::vector<io::Checkpoint> all = io::list_checkpoints(run / "checkpoints");
  return all.empty() ? -1 : all.back().step;
}

bool has_option(const Words& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(),
                     [option](const std::string& word) { return word.starts_with(option); });
}

// Whether another start may help: a run that ended by itself, by a signal or by its time limit has
// said what it wanted, and one that diverged or differs from another would do so again.
bool failed(int status, const Words& train) {
  return status != 0 && !(status == different && has_option(train, "--verify")) &&
         status != failed_training && status != 124 && status != 128 + SIGINT &&
         status != 128 + SIGTERM && status != 128 + SIGHUP;
}

// Something killed a rank, or it crashed; bad input ends with another code.
bool was_killed(int status) { return status > 128; }

bool resumes(const Words& train) { return has_option(train, "--resume"); }

// The command that continues a run, from its start if it has no checkpoint.
Words continuation(const Words& train, const fs::path& out, int64_t newest) {
  Words words = train;
  std::error_code error;
  if (newest < 0 && !fs::exists(out / "config.toml", error)) return words;
  if (!resumes(words)) words.emplace_back("--resume");
  if (newest < 0) words.emplace_back("--start-over");
  return words;
}

void check_reproduce(const LaunchArguments& arguments, const Words& reproduce) {
  for (const char* option : {"--audit", "--write"}) {
    if (has_option(reproduce, option))
      fail("launch", {.argument = "reproduce",
                      .expected = "a run to train again",
                      .found = option,
                      .hint = "that takes one process: leave launch out"});
  }
  if (arguments.restarts > 0)
    fail("launch", {.argument = "--restarts",
                    .expected = "train",
                    .found = "reproduce",
                    .hint = "name another --out and start it again"});
}

void check(const LaunchArguments& arguments, const Words& train) {
  if (!train.empty() && train[0] == "reproduce") return check_reproduce(arguments, train);
  if (train.empty() || train[0] != "train") {
    fail("launch", {.argument = "command",
                    .expected = "train or reproduce, and its options",
                    .found = train.empty() ? "none" : train[0]});
  }
  if (arguments.restarts > 0 && !out_of(train)) {
    fail("launch", {.argument = "--restarts",
                    .expected = "--out FOLDER among the options of train",
                    .found = "none",
                    .hint = "a run in a folder of unknown name cannot be resumed"});
  }
}

int launch(const LaunchArguments& arguments, const Words& train) {
  check(arguments, train);
  Supervisor supervisor;
  const auto start = [&](const Words& command) {
    const bool by_mpirun = has_mpirun();
    Words words = by_mpirun ? mpirun(arguments.ranks) : Words();
    words.push_back(fs::read_symlink("/proc/self/exe").string());
    words.insert(words.end(), command.begin(), command.end());
    if (by_mpirun) return supervisor.run(words);
    return supervisor.run([&] { return run_ranks(arguments.ranks, words); });
  };
  const std::optional<fs::path> out = out_of(train);
  int64_t before = out ? newest_step(*out) : -1;
  int status = start(train);
  for (int restart = 0; restart < arguments.restarts && failed(status, train); ++restart) {
    const int64_t now = newest_step(*out);
    // A failure without a newer checkpoint would come again, unless something else caused it.
    const bool again = now > before || (restart == 0 && (was_killed(status) || resumes(train)));
    if (const int signal = supervisor.stop_signal()) return 128 + signal;
    if (!again) break;
    before = now;
    std::fflush(stdout);
    std::fputs(fmt::format("binade: the ranks ended with {}; starting again from step {}\n", status,
                           std::max<int64_t>(now, 0))
                   .c_str(),
               stderr);
    status = start(continuation(train, *out, now));
  }
  return status;
}

}  // namespace

void add_launch(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "launch", "Train on several processes of this machine: binade launch -n 4 train ...");
  auto arguments = std::make_shared<LaunchArguments>();
  command->add_option("-n,--ranks", arguments->ranks, "Processes")
      ->required()
      ->transform(whole_number(1, 4096));
  command
      ->add_option("--restarts", arguments->restarts,
                   "When the ranks fail, resume from the newest checkpoint, at most so often")
      ->transform(whole_number(0, 1000000));
  command->prefix_command();
  command->footer(
      "Then train or reproduce follows, with its options: launch -n 4 train --steps 100");
  command->callback([command, arguments] {
    const int status = launch(*arguments, command->remaining());
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace binade::cli
