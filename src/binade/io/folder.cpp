#include "binade/io/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "binade/base/error.h"
#include "binade/io/file.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

// The folder itself: of "a/b/" the name is "b", and a link stands for the folder it leads to.
fs::path folder_itself(fs::path path) {
  std::error_code error;
  if (fs::is_symlink(path, error)) path = fs::weakly_canonical(path);
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string temporary_prefix(const fs::path& target) {
  return "." + target.filename().string() + ".tmp-";
}

int lock_of(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

void remove_leftovers_of(const fs::path& target) {
  std::error_code error;
  std::vector<fs::path> found;
  const fs::path parent = target.has_parent_path() ? target.parent_path() : ".";
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(temporary_prefix(target)))
      found.push_back(at->path());
  }
  for (const fs::path& path : found) {
    const int lock = lock_of(path);
    if (lock < 0) continue;  // another process is writing it
    fs::remove_all(path, error);
    ::close(lock);
  }
}

[[noreturn]] void refuse(std::string_view caller, const fs::path& path, const char* expected,
                         const std::error_code& error) {
  fail(caller, {.argument = path.string(),
                .expected = expected,
                .found = error.message(),
                .hint = "nothing was changed"});
}

}  // namespace

fs::path create_temporary_folder(const fs::path& target, std::string_view caller) {
  std::error_code error;
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), error);
  std::random_device draw;
  bool created = false;
  fs::path path;
  while (!error && !created) {
    path = target.parent_path() / (temporary_prefix(target) + fmt::format("{:08x}", draw()));
    created = fs::create_directory(path, error);
  }
  if (error) refuse(caller, target.parent_path(), "a folder to write to", error);
  return path;
}

AtomicFolder::AtomicFolder(fs::path target, std::string_view caller)
    : target_(folder_itself(std::move(target))), caller_(caller) {
  remove_leftovers_of(target_);
  temporary_ = create_temporary_folder(target_, caller_);
  lock_ = lock_of(temporary_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void AtomicFolder::put_in_place() {
  std::error_code error;
  if (!fs::exists(target_, error)) {
    fs::rename(temporary_, target_, error);
    if (error) refuse(caller_, target_, "a folder to put in place", error);
    temporary_.clear();
    return;
  }
  // Exchanges the two names, so that there is a complete folder at every moment; the older one is
  // then called temporary_.
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0)
    return;
  // Some file systems cannot.
  const fs::path older = create_temporary_folder(target_, caller_);
  fs::rename(target_, older, error);
  if (!error) fs::rename(temporary_, target_, error);
  if (error) refuse(caller_, target_, "a folder to put in place", error);
  temporary_ = older;
}

void AtomicFolder::commit(const std::function<bool(const std::string& name)>& keep) {
  sync_folder(temporary_, caller_);
  put_in_place();
  sync_folder(target_.parent_path(), caller_);
  if (temporary_.empty()) return;
  std::error_code error;
  std::vector<fs::path> kept;
  for (fs::directory_iterator at(temporary_, error), end; !error && at != end;
       at.increment(error)) {
    if (keep(at->path().filename().string())) kept.push_back(at->path());
  }
  for (const fs::path& path : kept) {
    const fs::path to = target_ / path.filename();
    if (fs::exists(fs::symlink_status(to, error))) continue;
    fs::rename(path, to, error);
    if (!error) continue;
    const fs::path older = std::exchange(temporary_, {});
    fail(caller_, {.argument = path.string(),
                   .expected = "a file to move into " + target_.string(),
                   .found = error.message(),
                   .hint = "the new folder is complete; the older one is " + older.string()});
  }
}

}  // namespace binade::io
