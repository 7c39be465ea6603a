#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "cli/command.h"
#include "io/temporary_folder.h"

// People resume, evaluate and export folders that someone gave them. Whatever stands in one, a link
// to elsewhere included: nothing outside it changes, no command hangs, and each ends well or with
// one message.
namespace binade::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* entries[] = {".lock",
                                   "run.json",
                                   "config.toml",
                                   "metrics.jsonl",
                                   "metrics.csv",
                                   "doctor.txt",
                                   "layers.jsonl",
                                   "precision_plan.json",
                                   "summary.json",
                                   "report.html",
                                   "layers.html",
                                   "baselines.html",
                                   "tokenizer.json",
                                   "generation_config.json",
                                   "tb",
                                   "tb/layers",
                                   "best",
                                   "best/model.safetensors",
                                   "baselines",
                                   "baselines/bf16",
                                   "checkpoints",
                                   "checkpoints/step-2",
                                   "checkpoints/step-4",
                                   "checkpoints/step-4/manifest.json",
                                   "checkpoints/step-4/config.json",
                                   "checkpoints/step-4/config.toml",
                                   "checkpoints/step-4/tokenizer.json",
                                   "checkpoints/step-4/model.safetensors",
                                   "checkpoints/step-4/trainer.safetensors",
                                   "checkpoints/step-6",
                                   "checkpoints/.step-6.tmp-00000001",
                                   "checkpoints/.step-2.old",
                                   ".best.tmp-00000001",
                                   "metrics.jsonl.tmp-1-0"};

enum class Kind {
  link_to_file,
  link_to_folder,
  dangling,
  pipe,
  device,
  folder,
  hard_link,
  garbage,
  nothing
};
constexpr Kind kinds[] = {Kind::link_to_file, Kind::link_to_folder, Kind::dangling,
                          Kind::pipe,         Kind::device,         Kind::folder,
                          Kind::hard_link,    Kind::garbage,        Kind::nothing};
constexpr const char* kind_names[] = {"link to a file", "link to a folder", "dangling link",
                                      "pipe",           "device",           "folder",
                                      "hard link",      "garbage",          "nothing"};

// RUN stands for the run's folder, OUT for a new one.
constexpr const char* commands[] = {"train --quiet --resume --steps 6 --out RUN",
                                    "eval RUN",
                                    "generate RUN --tokens 2 --prompt a",
                                    "report RUN",
                                    "export RUN OUT",
                                    "inspect RUN"};

// Everything below a folder: kinds, link targets, times of change and contents by name.
std::map<std::string, std::string> everything_in(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat status = {};
    ::lstat(entry.path().c_str(), &status);
    std::string& text = all[entry.path().string()];
    text = std::to_string(status.st_mode) + " ";
    // A folder's time changes with the names in it, a file's with its content.
    text += std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
    if (entry.is_regular_file()) text += testing::content_of(entry.path());
  }
  return all;
}

class HostileFolder {
 public:
  HostileFolder() {
    std::string text;
    for (int i = 0; i < 500; ++i) text += "the " + std::to_string(i * i) + "th line of a text\n";
    const std::string data = folder_.put("text.txt", text).string();
    const std::string tokenizer = (folder_ / "tokenizer.json").string();
    expect_success("tokenize train --kind byte-bpe --vocab 300 --data " + data + " " + tokenizer);
    expect_success(
        "train --quiet --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 "
        "--eval-every 2 --sample 0 --threads 1 --precision fp8 --auto-precision --layer-stats 1 "
        "--keep-best --warmup 0 --checkpoint-every 2 --steps 4 --data " +
        data + " --tokenizer " + tokenizer + " --out " + run().string());
    fs::rename(run(), folder_ / "pristine");
  }

  // The folder as the run has left it.
  void expect_works(const std::string& command) const {
    reset();
    const Outcome outcome = outcome_of(command);
    EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.err;
  }

  // Replaces an entry of the run and runs a command on it.
  void try_one(const std::string& entry, Kind kind, const std::string& command) {
    SCOPED_TRACE(entry + " as " + kind_names[static_cast<size_t>(kind)] + ": " + command);
    reset();
    if (!put(run() / entry, kind)) return;
    const auto outside = everything_in(folder_ / "outside");
    const Outcome outcome = outcome_of(command);
    EXPECT_THAT(outcome.status, AnyOf(0, 2)) << outcome.err;
    if (outcome.status == 2) {
      EXPECT_EQ(errors_in(outcome.err), 1) << outcome.err;
    }
    if (is_link(kind) && uses(command, entry)) {
      EXPECT_EQ(outcome.status, 2);
      EXPECT_THAT(outcome.err, AllOf(HasSubstr((run() / entry).string()),
                                     HasSubstr("a run's folder holds no links")));
    }
    EXPECT_TRUE(everything_in(folder_ / "outside") == outside) << outcome.err;
    ++tried_;
    refused_ += outcome.status == 2 ? 1 : 0;
  }
  int tried() const { return tried_; }
  int refused() const { return refused_; }

 private:
  fs::path run() const { return folder_ / "run"; }

  static void expect_success(const std::string& arguments) {
    const Outcome outcome = binade(arguments);
    if (outcome.status != 0) throw std::runtime_error(outcome.err);
  }
  Outcome outcome_of(std::string command) const {
    for (const auto& [word, path] : {std::pair("RUN", run()), {"OUT", folder_ / "out"}}) {
      if (const size_t at = command.find(word); at != std::string::npos)
        command.replace(at, 3, path.string());
    }
    return run_shell("timeout 100 " BINADE_EXECUTABLE " " + command);
  }
  // Lines that are no warnings of what was passed over or repaired before.
  static int errors_in(const std::string& text) {
    std::istringstream lines(text);
    int errors = 0;
    for (std::string line; std::getline(lines, line);)
      errors += line.starts_with("binade: warning: ") ? 0 : 1;
    return errors;
  }
  static bool is_link(Kind kind) {
    return kind == Kind::link_to_file || kind == Kind::link_to_folder || kind == Kind::dangling;
  }
  // Whether the command reads or writes it.
  static bool uses(const std::string& command, std::string_view entry) {
    if (command.starts_with("train"))
      return entry.starts_with("checkpoints") || entry.find("tmp-") == entry.npos;
    if (!command.starts_with("report")) return entry.starts_with("checkpoints");
    constexpr std::string_view of_report[] = {
        "config.toml", "metrics.jsonl", "layers.jsonl", "precision_plan.json", "summary.json",
        "report.html", "layers.html",   "baselines",    "baselines/bf16"};
    return std::find(std::begin(of_report), std::end(of_report), entry) != std::end(of_report);
  }

  void reset() const {
    for (const char* name : {"run", "outside", "out"}) fs::remove_all(folder_ / name);
    fs::copy(folder_ / "pristine", run(), fs::copy_options::recursive);
    fs::create_directories(folder_ / "outside/folder");
    folder_.put("outside/folder/precious", "precious");
    folder_.put("outside/file", "precious\n");
  }

  // The entry's own content stands outside if it has any, so that only the link is wrong with it.
  bool put(const fs::path& entry, Kind kind) const {
    const fs::path file = folder_ / "outside/file", elsewhere = folder_ / "outside/folder";
    if (fs::is_regular_file(entry))
      fs::copy_file(entry, file, fs::copy_options::overwrite_existing);
    if (fs::is_directory(entry)) fs::copy(entry, elsewhere, fs::copy_options::recursive);
    fs::remove_all(entry);
    fs::create_directories(entry.parent_path());
    switch (kind) {
      case Kind::link_to_file:
        fs::create_symlink(file, entry);
        break;
      case Kind::link_to_folder:
        fs::create_directory_symlink(elsewhere, entry);
        break;
      case Kind::dangling:
        fs::create_symlink(folder_ / "outside/new", entry);
        break;
      case Kind::pipe:
        return ::mkfifo(entry.c_str(), 0600) == 0;
      case Kind::device:  // as /dev/null; takes rights that a user does not have
        return ::mknod(entry.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
      case Kind::folder:
        fs::create_directory(entry);
        std::ofstream(entry / "file") << "content";
        break;
      case Kind::hard_link:
        fs::create_hard_link(file, entry);
        break;
      case Kind::garbage:
        std::ofstream(entry) << "\x01garbage{\n";
        break;
      case Kind::nothing:
        break;
    }
    return true;
  }

  testing::TemporaryFolder folder_;
  int tried_ = 0, refused_ = 0;
};

// Every entry as a link for resuming, and with one of the other kinds for one of the commands.
TEST(HostileFolder, ChangesNothingOutside) {
  HostileFolder folder;
  for (const char* command : commands) folder.expect_works(command);
  size_t i = 0;
  for (const char* entry : entries) {
    const bool is_folder = std::string_view(entry).find('.') == std::string_view::npos;
    folder.try_one(entry, is_folder ? Kind::link_to_folder : Kind::link_to_file, commands[0]);
    folder.try_one(entry, kinds[i % std::size(kinds)], commands[i % std::size(commands)]);
    ++i;
  }
  EXPECT_GT(folder.refused(), 30);  // and others that are no concern of the command
}

class HostileFolderSlow : public ::testing::TestWithParam<const char*> {};

TEST_P(HostileFolderSlow, ChangesNothingOutside) {
  HostileFolder folder;
  folder.expect_works(GetParam());
  for (const char* entry : entries) {
    for (const Kind kind : kinds) folder.try_one(entry, kind, GetParam());
  }
  std::printf("%-46s %4d entries replaced, %4d refused\n", GetParam(), folder.tried(),
              folder.refused());
}

INSTANTIATE_TEST_SUITE_P(, HostileFolderSlow, ::testing::ValuesIn(commands), [](const auto& info) {
  return std::string(info.param).substr(0, std::string_view(info.param).find(' '));
});

}  // namespace
}  // namespace binade::cli
