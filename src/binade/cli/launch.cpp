#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/values.h"
#include "binade/dist/communicator.h"
#include "binade/io/model_folder.h"

extern char** environ;

namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct LaunchArguments {
  int ranks = 0;
  int restarts = 0;
};

volatile pid_t launched = 0;
char children_file[64];  // of mpirun, in /proc

// Sends a signal to the ranks, which are mpirun's children: mpirun itself would leave them one
// second to save a checkpoint. Only calls that a signal handler may make.
void pass_on(int signal) {
  char pids[4096];
  const int file = ::open(children_file, O_RDONLY);
  const ssize_t size = file < 0 ? 0 : ::read(file, pids, sizeof(pids));
  if (file >= 0) ::close(file);
  pid_t pid = 0;
  bool sent = false;
  for (ssize_t i = 0; i < size; ++i) {
    if (pids[i] >= '0' && pids[i] <= '9') {
      pid = 10 * pid + (pids[i] - '0');
    } else if (pid > 0) {
      sent = ::kill(pid, signal) == 0 || sent;
      pid = 0;
    }
  }
  if (!sent && launched > 0) ::kill(launched, signal);
}

Words mpirun(int ranks) {
  Words words{"mpirun", "-n", std::to_string(ranks)};
  // Options of Open MPI: as many ranks as asked for, with threads on any core.
  if (dist::mpi_version().starts_with("Open MPI")) {
    for (const char* word : {"--oversubscribe", "--bind-to", "none"}) words.emplace_back(word);
    if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  return words;
}

// Runs a program and returns its exit code, as a shell reports it.
int run(const Words& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error != 0) {
    fail("launch", {.argument = words[0],
                    .expected = "a program on the PATH",
                    .found = std::strerror(error),
                    .hint = "install openmpi-bin"});
  }
  std::snprintf(children_file, sizeof(children_file), "/proc/%d/task/%d/children",
                static_cast<int>(child), static_cast<int>(child));
  launched = child;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  launched = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The value of --out among the words, if it is there.
std::optional<fs::path> out_of(const Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--out=")) return words[i].substr(6);
    if (words[i] == "--out" && i + 1 < words.size()) return words[i + 1];
  }
  return {};
}

// Of the words, those that a run's folder does not keep but its next start needs, too.
Words kept_options(const Words& words) {
  Words kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--quiet" || word == "--json" || word.starts_with("--allow-changes") ||
        word.starts_with("--dry-run") || word.starts_with("--time-limit="))
      kept.push_back(word);
    if (word == "--time-limit" && i + 1 < words.size()) {
      kept.push_back(word);
      kept.push_back(words[++i]);
    }
  }
  return kept;
}

// -1 if there is none.
int64_t newest_step(const fs::path& run) {
  const std::vector<io::Checkpoint> all = io::list_checkpoints(run / "checkpoints");
  return all.empty() ? -1 : all.back().step;
}

// Whether another start may help: a run that ended by itself, by a signal or by its time limit has
// said what it wanted.
bool failed(int status) {
  return status != 0 && status != 124 && status != 128 + SIGINT && status != 128 + SIGTERM &&
         status != 128 + SIGHUP;
}

int launch(const LaunchArguments& arguments, const Words& train) {
  if (dist::mpi_version().empty()) {
    fail("launch", {.argument = "-n",
                    .expected = "a build with MPI",
                    .found = "one without",
                    .hint = "install libopenmpi-dev and openmpi-bin and build again"});
  }
  if (train.empty() || train[0] != "train") {
    fail("launch", {.argument = "command",
                    .expected = "train and its options",
                    .found = train.empty() ? "none" : train[0]});
  }
  const std::optional<fs::path> out = out_of(train);
  if (arguments.restarts > 0 && !out) {
    fail("launch", {.argument = "--restarts",
                    .expected = "--out FOLDER among the options of train",
                    .found = "none",
                    .hint = "a run in a folder of unknown name cannot be resumed"});
  }
  const auto start = [&](const Words& command) {
    Words words = mpirun(arguments.ranks);
    words.push_back(fs::read_symlink("/proc/self/exe").string());
    words.insert(words.end(), command.begin(), command.end());
    return run(words);
  };
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, pass_on);
  std::signal(SIGINT, SIG_IGN);  // the terminal sends it to mpirun, too
  const bool resumes = std::any_of(train.begin(), train.end(), [](const std::string& word) {
    return word.starts_with("--resume");
  });
  int64_t before = out ? newest_step(*out) : -1;
  int status = start(train);
  for (int left = arguments.restarts; failed(status) && left > 0; --left) {
    const int64_t now = newest_step(*out);
    // Bad input, such as a folder with another run in it, or a failure that comes again at once.
    if (now < 0 || (now == before && (left < arguments.restarts || !resumes))) break;
    before = now;
    std::fflush(stdout);
    std::fputs(
        fmt::format("binade: the ranks ended with {}; starting again from step {}\n", status, now)
            .c_str(),
        stderr);
    Words again{"train", "--resume", "--out", out->string()};
    const Words kept = kept_options(train);
    again.insert(again.end(), kept.begin(), kept.end());
    status = start(again);
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
  command->callback([command, arguments] {
    const int status = launch(*arguments, command->remaining());
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace binade::cli
