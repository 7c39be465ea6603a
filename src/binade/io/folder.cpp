#include "binade/io/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
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
Path folder_itself(const Path& given, std::string_view caller) {
  if (given.is_guarded()) {
    given.require(EntryKind::folder, caller);
    return given;
  }
  fs::path path = given.plain();
  std::error_code error;
  if (fs::is_symlink(path, error)) path = fs::weakly_canonical(path);
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string temporary_prefix(const Path& target) { return "." + target.filename() + ".tmp-"; }

int lock_of(const Path& folder) {
  const int descriptor = folder.open(O_RDONLY | O_DIRECTORY);
  if (descriptor < 0 || ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

void remove_leftovers_of(const Path& target) {
  for (const std::string& name : target.parent_path().names()) {
    if (!name.starts_with(temporary_prefix(target))) continue;
    const Path path = target.beside(name);
    const int lock = lock_of(path);
    if (lock < 0) continue;  // another process is writing it
    path.remove_all();
    ::close(lock);
  }
}

[[noreturn]] void refuse_folder(std::string_view caller, const Path& path, const char* expected,
                                int error) {
  fail(caller, {.argument = path.string(),
                .expected = expected,
                .found = std::generic_category().message(error),
                .hint = "nothing was changed"});
}

}  // namespace

Path create_temporary_folder(const Path& target, std::string_view caller) {
  const Path parent = target.parent_path();
  if (!parent.plain().empty()) parent.make_folder(caller);
  std::random_device draw;
  for (;;) {
    const Path path = target.beside(temporary_prefix(target) + fmt::format("{:08x}", draw()));
    if (path.make_new_folder()) return path;
    if (errno != EEXIST) refuse_folder(caller, parent, "a folder to write to", errno);
  }
}

AtomicFolder::AtomicFolder(const Path& target, std::string_view caller)
    : target_(folder_itself(target, caller)), caller_(caller) {
  remove_leftovers_of(target_);
  temporary_ = create_temporary_folder(target_, caller_);
  lock_ = lock_of(temporary_);
}

AtomicFolder::~AtomicFolder() {
  if (!is_in_place_) temporary_.remove_all();
  if (lock_ >= 0) ::close(lock_);
}

void AtomicFolder::put_in_place() {
  if (!target_.exists()) {
    if (!temporary_.rename_to(target_))
      refuse_folder(caller_, target_, "a folder to put in place", errno);
    is_in_place_ = true;
    return;
  }
  // Exchanges the two names, so that there is a complete folder at every moment; the older one is
  // then called temporary_.
  if (temporary_.rename_to(target_, RENAME_EXCHANGE)) return;
  // Some file systems cannot.
  const Path older = create_temporary_folder(target_, caller_);
  if (!target_.rename_to(older) || !temporary_.rename_to(target_))
    refuse_folder(caller_, target_, "a folder to put in place", errno);
  temporary_ = older;
}

void AtomicFolder::commit(const std::function<bool(const std::string& name)>& keep) {
  sync_folder(temporary_, caller_);
  put_in_place();
  sync_folder(target_.parent_path(), caller_);
  if (is_in_place_) return;
  for (const std::string& name : temporary_.names()) {
    if (!keep(name) || (target_ / name).is_taken()) continue;
    if ((temporary_ / name).rename_to(target_ / name)) continue;
    is_in_place_ = true;
    fail(caller_, {.argument = (temporary_ / name).string(),
                   .expected = "a file to move into " + target_.string(),
                   .found = std::generic_category().message(errno),
                   .hint = "the new folder is complete; the older one is " + temporary_.string()});
  }
}

bool AtomicFolder::commit_new() {
  sync_folder(temporary_, caller_);
  if (!temporary_.rename_to(target_, RENAME_NOREPLACE)) {
    if (errno == EEXIST) return false;
    // Some file systems cannot.
    const bool cannot = errno == EINVAL || errno == ENOSYS;
    if (cannot && target_.is_taken()) return false;
    if (!cannot || !temporary_.rename_to(target_))
      refuse_folder(caller_, target_, "a folder to put in place", errno);
  }
  is_in_place_ = true;
  sync_folder(target_.parent_path(), caller_);
  return true;
}

}  // namespace binade::io
