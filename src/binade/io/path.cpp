#include "binade/io/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "binade/base/error.h"

namespace binade::io {

namespace fs = std::filesystem;
namespace {

constexpr int folder_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

std::error_code last_error_code() { return {errno, std::generic_category()}; }

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Where the system says that an open folder is; none if it was removed.
std::optional<fs::path> path_of_descriptor(int descriptor) {
  std::array<char, 4096> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  struct stat status = {};
  if (size <= 0 || ::fstat(descriptor, &status) != 0 || status.st_nlink == 0) return {};
  return fs::path(std::string(text.data(), static_cast<size_t>(size)));
}

EntryKind kind_of(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return EntryKind::file;
  if (S_ISDIR(status.st_mode)) return EntryKind::folder;
  return S_ISLNK(status.st_mode) ? EntryKind::link : EntryKind::other;
}

std::vector<std::string> names_in(int descriptor) {
  std::vector<std::string> names;
  DIR* stream = ::fdopendir(descriptor);
  if (stream == nullptr) {
    ::close(descriptor);
    return names;
  }
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(stream);
  return names;
}

void remove_below(int folder, const std::string& name) {
  if (::unlinkat(folder, name.c_str(), 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int below = ::openat(folder, name.c_str(), flags);
  if (below < 0) return;
  const int listed = ::openat(below, ".", flags);
  if (listed >= 0) {
    for (const std::string& one : names_in(listed)) remove_below(below, one);
  }
  ::close(below);
  ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

struct Directory::Handle {
  ~Handle() { ::close(descriptor); }

  int descriptor;
  std::mutex mutex;  // of the path
  fs::path path;
};

Directory::Directory(const fs::path& path, std::string_view caller) {
  const int descriptor = ::open(path.empty() ? "." : path.c_str(), folder_flags);
  if (descriptor < 0)
    fail(caller,
         {.argument = path.string(), .expected = "a folder", .found = last_error_code().message()});
  handle_ = std::make_shared<Handle>();
  handle_->descriptor = descriptor;
  handle_->path = path;
}

int Directory::descriptor() const { return handle_->descriptor; }

fs::path Directory::path() const {
  const std::lock_guard lock(handle_->mutex);
  struct stat own = {}, named = {};
  if (::fstat(descriptor(), &own) != 0) return handle_->path;
  const char* name = handle_->path.empty() ? "." : handle_->path.c_str();
  if (::stat(name, &named) == 0 && is_same_file(own, named)) return handle_->path;
  return path_of_descriptor(descriptor()).value_or(handle_->path);
}

void Directory::set_path(const fs::path& path) const {
  const std::lock_guard lock(handle_->mutex);
  handle_->path = path;
}

// The folder that a path's last name is in. folder -1: it cannot be reached, and errno says why.
struct Path::Parent {
  explicit Parent(const Path& path) {
    if (!path.is_guarded()) {
      folder = AT_FDCWD;
      name = path.names_.empty() ? "." : path.names_.string();
      return;
    }
    folder = path.root_->descriptor();
    for (const fs::path& next : path.names_) {
      if (next == ".." || next.is_absolute()) {
        enter(-1);
        errno = EINVAL;
        return;
      }
      if (!name.empty()) enter(::openat(folder, name.c_str(), folder_flags | O_NOFOLLOW));
      if (folder < 0) return;
      name = next.string();
    }
    if (name.empty()) name = ".";
  }
  ~Parent() {
    if (owned >= 0) ::close(owned);
  }
  Parent(const Parent&) = delete;
  Parent& operator=(const Parent&) = delete;

  void enter(int next) {
    const int error = errno;
    if (owned >= 0) ::close(owned);
    folder = owned = next;
    errno = error;
  }

  int folder, owned = -1;
  std::string name;
};

Path Path::operator/(const fs::path& below) const {
  Path result = *this;
  result.names_ /= below;
  return result;
}

Path Path::beside(const std::string& name) const {
  Path result = *this;
  result.names_.replace_filename(name);
  return result;
}

Path Path::parent_path() const {
  Path result = *this;
  result.names_ = names_.parent_path();
  return result;
}

fs::path Path::plain() const {
  if (!is_guarded()) return names_;
  return names_.empty() ? root_->path() : root_->path() / names_;
}

namespace {

EntryKind kind_at(int folder, const std::string& name, int flags) {
  struct stat status = {};
  if (folder == -1 || ::fstatat(folder, name.c_str(), &status, flags) != 0)
    return EntryKind::nothing;
  return kind_of(status);
}

}  // namespace

EntryKind Path::kind() const {
  const Parent parent(*this);
  return kind_at(parent.folder, parent.name, is_guarded() ? AT_SYMLINK_NOFOLLOW : 0);
}

bool Path::is_taken() const {
  const Parent parent(*this);
  return kind_at(parent.folder, parent.name, AT_SYMLINK_NOFOLLOW) != EntryKind::nothing;
}

std::string describe_entry(const Path& path) {
  switch (path.kind()) {
    case EntryKind::nothing:
      return "nothing there";
    case EntryKind::file:
      return "a file";
    case EntryKind::folder:
      return "a folder";
    case EntryKind::link: {
      std::error_code ignored;
      return "a link to " + fs::read_symlink(path.plain(), ignored).string();
    }
    case EntryKind::other:
      return "a pipe, a socket or a device";
  }
  return {};
}

void Path::require(EntryKind expected, std::string_view caller) const {
  if (!is_guarded()) return;
  Path reached(*root_);
  for (auto next = names_.begin(); next != names_.end(); ++next) {
    reached = reached / *next;
    const EntryKind kind = reached.kind();
    const EntryKind needed = std::next(next) == names_.end() ? expected : EntryKind::folder;
    if (kind == EntryKind::nothing) return;
    if (kind == needed) continue;
    const bool is_link = kind == EntryKind::link;
    fail(caller, {.argument = reached.string(),
                  .expected = needed == EntryKind::folder ? "a folder" : "a file",
                  .found = describe_entry(reached),
                  .hint = is_link ? "a run's folder holds no links: put what it leads to in its "
                                    "place, or remove it"
                                  : "move it out of the run's folder"});
  }
}

void Path::require_folder_of_files(std::string_view caller) const {
  if (!is_guarded()) return;
  require(EntryKind::folder, caller);
  for (const std::string& name : names()) {
    const Path entry = *this / name;
    if (entry.kind() == EntryKind::folder) {
      entry.require_folder_of_files(caller);
    } else {
      entry.require(EntryKind::file, caller);
    }
  }
}

int Path::open(int flags, unsigned int mode) const {
  const Parent parent(*this);
  if (parent.folder == -1) return -1;
  const int guard = is_guarded() ? O_NOFOLLOW : 0;
  return ::openat(parent.folder, parent.name.c_str(), flags | guard | O_CLOEXEC, mode);
}

bool Path::rename_to(const Path& to, unsigned int flags) const {
  const Parent before(*this), after(to);
  if (before.folder == -1 || after.folder == -1) return false;
  if (flags == 0)
    return ::renameat(before.folder, before.name.c_str(), after.folder, after.name.c_str()) == 0;
  return ::renameat2(before.folder, before.name.c_str(), after.folder, after.name.c_str(), flags) ==
         0;
}

bool Path::unlink() const {
  const Parent parent(*this);
  return parent.folder != -1 && ::unlinkat(parent.folder, parent.name.c_str(), 0) == 0;
}

std::vector<std::string> Path::names() const {
  const int descriptor = open(O_RDONLY | O_DIRECTORY);
  return descriptor < 0 ? std::vector<std::string>() : names_in(descriptor);
}

bool Path::make_new_folder() const {
  const Parent parent(*this);
  return parent.folder != -1 && ::mkdirat(parent.folder, parent.name.c_str(), 0777) == 0;
}

void Path::make_folder(std::string_view caller) const {
  require(EntryKind::folder, caller);
  std::error_code error;
  if (is_guarded()) {
    if (!make_new_folder() && errno != EEXIST) error = last_error_code();
  } else {
    fs::create_directories(names_, error);
  }
  if (error)
    fail(caller,
         {.argument = string(), .expected = "a folder to write to", .found = error.message()});
}

void Path::remove_all() const {
  const Parent parent(*this);
  if (parent.folder != -1) remove_below(parent.folder, parent.name);
}

}  // namespace binade::io
