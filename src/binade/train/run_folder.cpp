#include "binade/train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/io/file.h"
#include "binade/train/checkpoint.h"
#include "binade/train/metrics.h"
#include "binade/train/origin.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_file = ".lock";
constexpr const char* run_file = "run.json";
constexpr int64_t max_run_file = 1 << 16;

bool path_exists(const fs::path& path) {
  std::error_code ignored;  // creating the folder reports what is wrong
  return fs::exists(path, ignored);
}

std::string host_and_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", ::getpid(), host[0] == '\0' ? "this host" : host.data());
}

// Creates it, so that no other process takes the same name.
fs::path claim_free_folder() {
  std::error_code error;
  fs::create_directories("runs", error);
  for (int64_t i = 1; !error; ++i) {
    const fs::path folder = fs::path("runs") / std::to_string(i);
    if (fs::create_directory(folder, error)) return folder;
  }
  fail("train", {.argument = "runs", .expected = "a folder to write to", .found = error.message()});
}

struct RunFile {
  std::string id;
  int64_t checkpoint = -1;
};

std::optional<RunFile> read_run_file(const fs::path& folder) {
  const fs::path path = folder / run_file;
  if (!path_exists(path)) return {};
  const std::string text = io::read_text(path, "train", max_run_file);
  const json::Document document = json::parse(text, {"train", path.string()});
  const json::Value& root = document.root();
  if (root.at("format").string() != "binade-run")
    root.at("format").refuse("\"binade-run\"", root.at("format").describe());
  root.at("version").integer(1, 1);
  return RunFile{root.at("run").string(), root.at("checkpoint").integer(-1, int64_t{1} << 60)};
}

void check_unused(const fs::path& folder) {
  const auto checkpoints = list_checkpoints(folder / "checkpoints");
  std::string found;
  if (path_exists(folder / "metrics.jsonl") || path_exists(folder / run_file)) {
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

void check_same_run(const fs::path& checkpoint, const std::string& expected) {
  const std::string found = read_origin(checkpoint).run;
  if (found.empty() || found == expected) return;
  fail("train", {.argument = "--resume from " + checkpoint.string(),
                 .expected = "a checkpoint of run " + expected,
                 .found = "one of run " + json::in_quotes(found),
                 .hint = "move it out of the run's folder"});
}

bool has_logged_steps(const fs::path& folder) {
  bool found = false;
  if (path_exists(folder / "metrics.jsonl")) {
    visit_metrics(
        folder / "metrics.jsonl",
        [&](const Record& record, std::string_view) { found |= record.step > 0; },
        [](const std::string&) {});
  }
  return found;
}

void check_resumable(const Config& config) {
  if (config.resume && !path_exists(fs::path(config.out) / "config.toml"))
    fail("train", {.argument = "--resume", .expected = "a run in " + config.out, .found = "none"});
}

// The run's id and the checkpoint at which it begins.
struct RunStart {
  std::string run_id;
  std::optional<Checkpoint> checkpoint = {};
  std::vector<std::string> warnings = {};
};

RunStart choose_checkpoint(const fs::path& folder, const Config& config) {
  const std::optional<RunFile> saved = read_run_file(folder);
  const auto found = list_checkpoints(folder / "checkpoints");
  RunStart result{saved ? saved->id : found.empty() ? "" : read_origin(found.back().path).run};
  if (result.run_id.empty()) result.run_id = new_run_id();
  if (!config.resume) return result;
  if (!found.empty()) {
    for (const Checkpoint& checkpoint : found) check_same_run(checkpoint.path, result.run_id);
    result.checkpoint = found.back();
    if (saved && saved->checkpoint > found.back().step)
      result.warnings.push_back(fmt::format("{} is missing: continuing from {}",
                                            io::checkpoint_name(saved->checkpoint),
                                            io::checkpoint_name(found.back().step)));
    return result;
  }
  // A run that was killed before its first checkpoint has lost nothing by starting over.
  const bool lost = saved ? saved->checkpoint >= 0 : has_logged_steps(folder);
  if (!lost || config.start_over) return result;
  fail("train", {.argument = "--resume from " + folder.string(),
                 .expected = saved ? io::checkpoint_name(saved->checkpoint) : "a checkpoint",
                 .found = "none, though steps were logged",
                 .hint = "put the checkpoints back, or add --start-over to train from step 0 and "
                         "replace the log"});
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

std::optional<io::Checkpoint> check_run_folder(const Config& config) {
  check_resumable(config);
  const fs::path folder = config.out.empty() ? fs::path("runs") : fs::path(config.out);
  check_writable(folder);
  if (!config.resume && !config.out.empty()) check_unused(folder);
  return config.resume ? choose_checkpoint(folder, config).checkpoint : std::nullopt;
}

fs::path token_cache(const Config& config) {
  fs::path run = config.out.empty() ? fs::path("runs/1") : fs::path(config.out);
  if (!run.has_filename()) run = run.parent_path();  // "runs/1/"
  return run.parent_path() / ".tokens";
}

RunLock::RunLock(const fs::path& folder) {
  const fs::path path = folder / lock_file;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
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
  const std::string text = host_and_process();
  // A lock without a name works, too.
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0)
    errno = 0;
}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  if (::ftruncate(descriptor_, 0) != 0) errno = 0;
  ::close(descriptor_);
}

RunFolder::RunFolder(const Config& config) {
  check_resumable(config);
  path_ = config.out.empty() ? claim_free_folder() : fs::path(config.out);
  if (!config.resume) check_unused(path_);
  create();
  // Another process may have had the lock, and ended, in between.
  if (!config.resume) check_unused(path_);
  remove_leftovers(checkpoints());
  RunStart chosen = choose_checkpoint(path_, config);
  run_id_ = std::move(chosen.run_id);
  resumed_ = std::move(chosen.checkpoint);
  warnings_ = std::move(chosen.warnings);
}

void RunFolder::create() {
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  if (error)
    fail("train", {.argument = "--out " + path_.string(),
                   .expected = "a folder to write to",
                   .found = error.message()});
  lock_.emplace(path_);
  io::sync_folder(path_, "train");
  io::sync_folder(path_.lexically_normal().parent_path(), "train");
}

void RunFolder::note_checkpoint(int64_t step) {
  json::Writer out(2);
  out.begin_object().key("format").value("binade-run").key("version").value(1);
  out.key("run").value(run_id_).key("checkpoint").value(step);
  io::AtomicFile file(path_ / run_file, "train");
  file.append(out.end_object().text() + "\n");
  file.commit();
}

bool RunFolder::exists() const {
  std::error_code ignored;  // a file system that does not answer has not lost the folder
  return fs::status(path_ / lock_file, ignored).type() != fs::file_type::not_found;
}

void RunFolder::create_again() {
  lock_.reset();
  create();
}

}  // namespace binade::train
