// A library to preload into a program: lets one of its system calls on files fail, or ends the
// program there as kill -9 or a power cut would. Environment:
//   BINADE_FAULT_ROOT   only calls on paths that begin so count, and on those of the temporary
//                       folder or file that gets such a name
//   BINADE_FAULT_AT     index of the call, from 0; none: only count
//   BINADE_FAULT        kill, torn, cut, short, or the name of an error: ENOSPC, EIO, EINTR
//   BINADE_FAULT_COUNT  file that receives the number of calls at the end, unless that is 0
// A kill comes before the call; a torn write is one that a kill ends in its middle.
// A power cut loses what was not synchronized: bytes of files after their last fsync, and new names
// in folders that had no fsync since.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Rename {
  std::string from, to, backup;  // backup: another name of what was called `to`; empty: nothing was
  unsigned int flags = 0;        // of renameat2
};

struct State {
  std::recursive_mutex mutex;
  std::string root, fault;
  long at = -1, count = 0;
  std::map<std::string, off_t> unsynced;  // file -> bytes that are on disk
  std::map<std::string, bool> created;    // files whose names may not be on disk
  std::vector<Rename> renames;            // the same
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Never destroyed: threads may write until the end.
State& state() {
  static State* instance = [] {
    auto* made = new State;
    made->root = variable("BINADE_FAULT_ROOT");
    made->fault = variable("BINADE_FAULT");
    if (const std::string at = variable("BINADE_FAULT_AT"); !at.empty()) made->at = std::stol(at);
    return made;
  }();
  return *instance;
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string path_of(int descriptor) {
  char name[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), name, sizeof name);
  return size <= 0 ? std::string() : std::string(name, static_cast<size_t>(size));
}

bool counts(const std::string& path) {
  const std::string& root = state().root;
  if (root.empty()) return false;
  const std::string hidden = parent_of(root) + "/." + root.substr(root.rfind('/') + 1) + ".tmp-";
  return path.starts_with(root) || path.starts_with(hidden);
}

// Not through this library's own unlink().
void remove_name(const std::string& path) { ::syscall(SYS_unlinkat, AT_FDCWD, path.c_str(), 0); }

void undo_unsynced() {
  State& s = state();
  for (auto one = s.renames.rbegin(); one != s.renames.rend(); ++one) {
    ::syscall(SYS_renameat2, AT_FDCWD, one->to.c_str(), AT_FDCWD, one->from.c_str(), one->flags);
    if (!one->backup.empty())
      ::syscall(SYS_renameat2, AT_FDCWD, one->backup.c_str(), AT_FDCWD, one->to.c_str(), 0);
    // What is known of the file, or of the files below the folder, has its old name again.
    std::map<std::string, off_t> moved;
    for (const auto& [path, size] : s.unsynced)
      moved[path.starts_with(one->to) ? one->from + path.substr(one->to.size()) : path] = size;
    s.unsynced = moved;
  }
  for (const auto& [path, size] : s.unsynced) (void)!::truncate(path.c_str(), size);
  for (const auto& [path, yes] : s.created) remove_name(path);
}

void remove_backups() {
  for (const Rename& one : state().renames)
    if (!one.backup.empty()) remove_name(one.backup);
}

void end_by_kill() {
  remove_backups();
  ::kill(::getpid(), SIGKILL);
}

enum class Verdict { go_on, failed, shortened, torn };

// Counts a call, and does what the environment asks for at this one.
Verdict next_call(const char* name) {
  State& s = state();
  if (s.count++ != s.at) return Verdict::go_on;
  if (s.fault == "torn" && std::strcmp(name, "write") == 0) return Verdict::torn;
  if (s.fault == "cut") undo_unsynced();
  if (s.fault == "cut" || s.fault == "kill" || s.fault == "torn") end_by_kill();
  if (s.fault == "short")
    return std::strcmp(name, "write") == 0 ? Verdict::shortened : Verdict::go_on;
  // Removing is tidying up: what could not be removed stays until the run is resumed.
  if (std::strcmp(name, "unlink") == 0) return Verdict::go_on;
  // Only calls that wait are interrupted.
  if (s.fault == "EINTR" && std::strcmp(name, "write") != 0 && std::strcmp(name, "fsync") != 0)
    return Verdict::go_on;
  errno = s.fault == "ENOSPC" ? ENOSPC : s.fault == "EINTR" ? EINTR : EIO;
  return Verdict::failed;
}

// Before the first write since the last fsync: how much of the file is on disk.
void note_write(int descriptor, const std::string& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0) state().unsynced.emplace(path, status.st_size);
}

void note_rename(const char* from, const char* to, unsigned int flags) {
  State& s = state();
  Rename one{from, to, {}, flags};
  // Only for a cut, which ends the process here: another end would leave it in the run's folder.
  if (struct stat status = {};
      s.fault == "cut" && ::lstat(to, &status) == 0 && S_ISREG(status.st_mode)) {
    one.backup = parent_of(to) + "/.before-" + std::to_string(s.count);
    if (::link(to, one.backup.c_str()) != 0) one.backup.clear();
  }
  s.renames.push_back(one);
  std::map<std::string, off_t> moved;
  for (const auto& [path, size] : s.unsynced)
    moved[path.starts_with(from) ? to + path.substr(std::strlen(from)) : path] = size;
  s.unsynced = moved;
  s.created.erase(from);  // undoing the rename takes its name away
}

void note_sync(int descriptor, const std::string& path) {
  State& s = state();
  s.unsynced.erase(path);
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISDIR(status.st_mode)) return;
  std::erase_if(s.created, [&](const auto& one) { return parent_of(one.first) == path; });
  std::erase_if(s.renames, [&](const Rename& one) {
    if (parent_of(one.to) != path) return false;
    if (!one.backup.empty()) remove_name(one.backup);
    return true;
  });
}

struct AtTheEnd {
  ~AtTheEnd() {
    const std::string file = variable("BINADE_FAULT_COUNT");
    // A program may start others, which change nothing below the folder and end after it.
    if (!file.empty() && state().count > 0) std::ofstream(file) << state().count;
    remove_backups();
  }
} at_the_end;

// The path of a file that a call names below an open folder.
std::string path_below(int folder, const char* name) {
  return folder == AT_FDCWD || name[0] == '/' ? name : path_of(folder) + "/" + name;
}

int open_noted(const char* call_name, int folder, const char* name, int flags, mode_t mode) {
  const auto call = real<int(int, const char*, int, ...)>(call_name);
  const std::string path = path_below(folder, name);
  if ((flags & O_CREAT) == 0 || !counts(path)) return call(folder, name, flags, mode);
  const std::lock_guard lock(state().mutex);
  if (next_call("open") == Verdict::failed) return -1;
  const bool fresh = ::access(path.c_str(), F_OK) != 0;
  const int descriptor = call(folder, name, flags, mode);
  if (descriptor >= 0 && fresh) state().created[path] = true;
  return descriptor;
}

}  // namespace

extern "C" int openat(int folder, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = static_cast<mode_t>(va_arg(rest, int));
  va_end(rest);
  return open_noted("openat", folder, name, flags, mode);
}

extern "C" int openat64(int folder, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = static_cast<mode_t>(va_arg(rest, int));
  va_end(rest);
  return open_noted("openat64", folder, name, flags, mode);
}

namespace {

// `call` writes that many bytes.
template <class Call>
ssize_t write_noted(int descriptor, size_t size, Call&& call) {
  const std::string path = path_of(descriptor);
  if (!counts(path)) return call(size);
  const std::lock_guard lock(state().mutex);
  note_write(descriptor, path);
  const Verdict verdict = next_call("write");
  if (verdict == Verdict::failed) return -1;
  const bool partial = verdict == Verdict::shortened || verdict == Verdict::torn;
  const ssize_t written = call(partial ? (size + 1) / 2 : size);
  if (verdict == Verdict::torn) end_by_kill();
  return written;
}

ssize_t pwrite_noted(const char* name, int descriptor, const void* bytes, size_t size, off_t at) {
  const auto call = real<ssize_t(int, const void*, size_t, off_t)>(name);
  return write_noted(descriptor, size,
                     [&](size_t part) { return call(descriptor, bytes, part, at); });
}

void note_unlink(const std::string& path) {
  if (!counts(path)) return;
  const std::lock_guard lock(state().mutex);
  next_call("unlink");
}

}  // namespace

extern "C" ssize_t write(int descriptor, const void* bytes, size_t size) {
  const auto call = real<ssize_t(int, const void*, size_t)>("write");
  return write_noted(descriptor, size, [&](size_t part) { return call(descriptor, bytes, part); });
}

extern "C" ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  return pwrite_noted("pwrite", descriptor, bytes, size, at);
}

extern "C" ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t at) {
  return pwrite_noted("pwrite64", descriptor, bytes, size, at);
}

extern "C" int fsync(int descriptor) {
  const std::string path = path_of(descriptor);
  const std::lock_guard lock(state().mutex);
  // Of the folder above, too, it makes names durable.
  if (counts(path) && next_call("fsync") == Verdict::failed) return -1;
  note_sync(descriptor, path);  // the disk itself need not be asked
  return 0;
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return renameat2(from_folder, from, to_folder, to, 0);
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  const auto call = real<int(int, const char*, int, const char*, unsigned int)>("renameat2");
  const std::string source = path_below(from_folder, from), target = path_below(to_folder, to);
  if (!counts(source)) return call(from_folder, from, to_folder, to, flags);
  const std::lock_guard lock(state().mutex);
  if (next_call("rename") == Verdict::failed) return -1;
  note_rename(source.c_str(), target.c_str(), flags);
  return call(from_folder, from, to_folder, to, flags);
}

extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  const auto call = real<int(int, const char*, int)>("unlinkat");
  note_unlink(path_below(folder, name));
  return call(folder, name, flags);
}

extern "C" int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  const auto call = real<int(int, const char*, mode_t)>("mkdirat");
  if (!counts(path_below(folder, name))) return call(folder, name, mode);
  const std::lock_guard lock(state().mutex);
  return next_call("mkdir") == Verdict::failed ? -1 : call(folder, name, mode);
}
