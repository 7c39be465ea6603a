#include "binade/train/run/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "binade/base/error.h"
#include "binade/io/file.h"
#include "binade/io/manifest.h"
#include "binade/train/checkpoint.h"
#include "binade/train/machine.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_file = ".lock";

bool path_exists(const fs::path& path) {
  std::error_code ignored;  // creating the folder reports what is wrong
  return fs::exists(path, ignored);
}

std::string host_and_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", ::getpid(), host[0] == '\0' ? "this host" : host.data());
}

// The names of a run's files and folders. No link, no pipe and no device is accepted under them.
constexpr const char* run_files[] = {
    lock_file,        run_file_name,     "config.toml",           "metrics.jsonl",
    "metrics.csv",    "doctor.txt",      "layers.jsonl",          "precision_plan.json",
    "summary.json",   "report.html",     "layers.html",           "baselines.html",
    "tokenizer.json", "tokenizer.model", "metrics.jsonl.damaged", "layers.jsonl.damaged",
    cure_file};
constexpr const char* run_folders[] = {"checkpoints", "best", "tb", "baselines"};

// The path without a slash at its end: "run" for "run/".
fs::path without_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// The next of runs/1, runs/2, ... that does not exist.
fs::path free_name() {
  for (int64_t i = 1;; ++i) {
    const fs::path folder = fs::path("runs") / std::to_string(i);
    if (!io::Path(folder).is_taken()) return folder;
  }
}

// Whether there is anything that a run is resumed from.
bool has_run(const io::Path& folder) {
  return (folder / "config.toml").exists() || (folder / run_file_name).exists() ||
         (folder / "metrics.jsonl").exists() ||
         !io::list_step_folders(folder / "checkpoints").empty();
}

void check_unused(const io::Path& folder) {
  const auto checkpoints = list_checkpoints(folder / "checkpoints");
  std::string found;
  if ((folder / "metrics.jsonl").exists() || (folder / run_file_name).exists()) {
    found = "one with a run in it";
  } else if (!checkpoints.empty()) {
    found = fmt::format("one with a run's checkpoint, {}",
                        io::checkpoint_name(checkpoints.back().step));
  }
  if (!found.empty())
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a new folder",
                   .found = found,
                   .hint = "add --resume to continue that run, or name another folder"});
}

// Fails if a folder cannot be written to, or does not exist and cannot be created.
void check_writable(const fs::path& folder) {
  fs::path existing = folder;
  while (!path_exists(existing))
    existing = existing.parent_path().empty() ? "." : existing.parent_path();
  std::error_code error;
  if (!fs::is_directory(existing, error)) {
    error = std::make_error_code(std::errc::not_a_directory);
  } else if (::access(existing.c_str(), W_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error)
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a folder to write to",
                   .found = error.message()});
}

}  // namespace

void check_run_entries(const io::Path& folder) {
  for (const char* name : run_files) (folder / name).require(io::EntryKind::file, "train");
  for (const std::string& name : folder.names()) {
    if (io::is_companion(name)) (folder / name).require(io::EntryKind::file, "train");
  }
  for (const char* name : run_folders) (folder / name).require_folder_of_files("train");
}

std::optional<io::Checkpoint> check_run_folder(const Config& config) {
  check_writable(config.run.out.empty() ? fs::path("runs") : fs::path(config.run.out));
  if (config.run.out.empty() || !path_exists(config.run.out)) return {};
  const io::Path folder(io::Directory(config.run.out, "train"));
  check_run_entries(folder);
  if (!config.run.resume) check_unused(folder);
  return config.run.resume ? find_start(folder, config).checkpoint : std::nullopt;
}

RunLock::RunLock(const io::Path& folder) {
  const io::Path path = folder / lock_file;
  path.require(io::EntryKind::file, "train");
  descriptor_ = path.open(O_RDWR | O_CREAT | O_NONBLOCK, 0666);
  if (descriptor_ < 0)
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a folder to write to",
                   .found = std::generic_category().message(errno)});
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const bool taken = errno == EWOULDBLOCK;
    std::array<char, 300> holder{};
    const ssize_t size = ::read(descriptor_, holder.data(), holder.size());
    ::close(std::exchange(descriptor_, -1));
    if (!taken) return;  // the file system has no locks
    const std::string_view text(holder.data(), size > 0 ? static_cast<size_t>(size) : 0);
    fail("train", {.argument = "--out " + folder.string(),
                   .expected = "a folder that no other process writes to",
                   .found = "one in use by " + (text.empty() ? "another" : std::string(text)),
                   .hint = "wait for that process or stop it, or name another folder"});
  }
  struct stat status = {};
  names_holder_ = ::fstat(descriptor_, &status) == 0 && status.st_nlink == 1;
  if (!names_holder_) return;
  const std::string text = host_and_process();
  // A lock without a name works, too.
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0)
    errno = 0;
}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  if (names_holder_ && ::ftruncate(descriptor_, 0) != 0) errno = 0;
  ::close(descriptor_);
}

bool RunLock::is_in(const io::Path& folder) const {
  struct stat own = {}, named = {};
  const int found = (folder / lock_file).open(O_PATH);
  const bool is_same = descriptor_ < 0
                           ? found >= 0
                           : found >= 0 && ::fstat(found, &named) == 0 &&
                                 ::fstat(descriptor_, &own) == 0 && own.st_dev == named.st_dev &&
                                 own.st_ino == named.st_ino;
  if (found >= 0) ::close(found);
  return is_same;
}

RunFolder::RunFolder(const Config& config)
    : name_(config.run.out.empty() ? free_name() : without_slash(config.run.out)),
      is_numbered_(config.run.out.empty()) {
  check_writable(is_numbered_ ? fs::path("runs") : name_);
  if (!path_exists(name_)) {
    unnamed_.emplace(name_, "train");
  } else if (!config.run.resume) {
    check_unused(io::Directory(name_, "train"));
  }
  open(unnamed_ ? unnamed_->path().plain() : name_);
  is_new_ = !config.run.resume || !has_run(path());
  // Another process may have had the lock, and ended, in between.
  if (!config.run.resume) check_unused(path());
  remove_leftovers(checkpoints());
  begin(find_start(path(), config));
}

void RunFolder::begin(RunStart start) {
  for (const io::Path& damaged : start.damaged) {
    const io::Path aside = io::set_aside(damaged, "train");
    start.warnings.push_back(
        fmt::format("the damaged {} is now {}", damaged.filename(), aside.string()));
  }
  run_ = std::move(start.run);
  if (is_new_) run_.command = command_line();
  resumed_ = std::move(start.checkpoint);
  warnings_ = std::move(start.warnings);
}

void RunFolder::open(const fs::path& folder) {
  lock_.reset();
  directory_.emplace(folder, "train");
  check_run_entries(path());
  lock_.emplace(path());
  checkpoints().make_folder("train");
  io::sync_folder(path(), "train");
  io::sync_folder(folder.lexically_normal().parent_path(), "train");
}

void RunFolder::put_in_place(const std::function<void(const fs::path& name)>& save) {
  save(name_);
  if (!unnamed_) return;
  while (!unnamed_->commit_new()) {
    if (!is_numbered_)
      fail("train", {.argument = "--out " + name_.string(),
                     .expected = "a new folder",
                     .found = "one that another process has just made",
                     .hint = "name another folder"});
    name_ = free_name();
    unnamed_->rename_target(name_.filename().string());
    save(name_);
  }
  directory_->set_path(name_);
  unnamed_.reset();
}

void RunFolder::note_checkpoint(int64_t step) {
  run_.checkpoint = step;
  io::AtomicFile file(path() / run_file_name, "train");
  file.append(to_json(run_));
  file.commit();
}

bool RunFolder::is_ours() {
  if (!(path() / run_file_name).exists()) return false;
  if (lock_ && lock_->is_in(path())) return true;
  try {
    lock_.emplace(path());
  } catch (const Error&) {  // another process has a new one
    return false;
  }
  return true;
}

bool RunFolder::was_renamed() {
  const fs::path now = directory_->path();
  if (now == name_) return false;
  name_ = now;
  directory_->set_path(now);
  return true;
}

void RunFolder::replace() {
  const fs::path before = name_;
  std::error_code error;
  if (before.has_parent_path()) fs::create_directories(before.parent_path(), error);
  for (int64_t i = 2; !error && !fs::create_directory(name_, error); ++i)
    name_ = before.string() + "-" + std::to_string(i);
  if (error)
    fail("train", {.argument = name_.string(),
                   .expected = "a folder in place of the run's, which was removed",
                   .found = error.message()});
  open(name_);
}

}  // namespace binade::train
