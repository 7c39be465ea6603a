#include "binade/io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>
#include <utility>

#include "binade/base/error.h"

namespace binade::io {
namespace {

std::string last_error() { return std::generic_category().message(errno); }

// Closes a file descriptor at the end of its scope.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

int sync_retrying(int descriptor) {
  int result = 0;
  do {
    result = ::fsync(descriptor);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Writes all of it. False with errno set if the system refuses.
bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

constexpr const char* temporary_suffix = ".tmp-";  // and the process, "-" and a count

bool is_temporary_name_of(const std::string& target, const std::string& name) {
  const std::string prefix = target + temporary_suffix;
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of("0123456789-", prefix.size()) == name.npos;
}

// Removes the temporary files of `target` whose writers have ended.
void remove_unfinished_files(const Path& target) {
  for (const std::string& name : target.parent_path().names()) {
    if (!is_temporary_name_of(target.filename(), name)) continue;
    const Path path = target.beside(name);
    const Descriptor file{path.open(O_WRONLY | O_NOFOLLOW | O_NONBLOCK)};
    if (file.number >= 0 && ::flock(file.number, LOCK_EX | LOCK_NB) == 0) path.unlink();
  }
}

// Locks a new file. Returns false if another process has removed it as a leftover before that.
bool lock_new_file(int descriptor) {
  struct stat status = {};
  while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR) continue;  // others hold it briefly
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

// The mapped files, in a form that a signal handler may read.
struct Mapping {
  std::atomic<uintptr_t> begin = 0;  // 0: free
  std::atomic<size_t> size = 0;
  std::atomic<bool> shrunk = false;
};
std::array<Mapping, 1024> mappings;  // files beyond that many are not guarded
std::array<std::string, 1024> mapping_paths;
std::mutex mappings_mutex;  // of changes
std::atomic<bool> any_shrunk = false;

void note_mapping(std::span<const std::byte> bytes, const std::string& path) {
  const std::lock_guard lock(mappings_mutex);
  for (size_t i = 0; i < mappings.size(); ++i) {
    if (mappings[i].begin != 0) continue;
    mapping_paths[i] = path;
    mappings[i].shrunk = false;
    mappings[i].size = bytes.size();
    mappings[i].begin = reinterpret_cast<uintptr_t>(bytes.data());
    return;
  }
}

void forget_mapping(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mappings_mutex);
  bool shrunk = false;
  for (Mapping& mapping : mappings) {
    if (mapping.begin == reinterpret_cast<uintptr_t>(bytes.data())) mapping.begin = 0;
    shrunk |= mapping.begin != 0 && mapping.shrunk;
  }
  any_shrunk = shrunk;
}

// Puts a page of zeros where a mapped file has lost one, so that the read can finish.
void on_lost_page(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Mapping& mapping : mappings) {
    const uintptr_t begin = mapping.begin;
    if (begin == 0 || address < begin || address - begin >= mapping.size) continue;
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* at = static_cast<std::byte*>(info->si_addr) - address % page;
    if (::mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      break;
    mapping.shrunk = true;
    any_shrunk = true;
    errno = error;
    return;
  }
  ::signal(signal, SIG_DFL);  // the access is repeated and ends the process
}

}  // namespace

void guard_mapped_files() {
  struct sigaction action = {};
  action.sa_sigaction = on_lost_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

namespace {

// Checks the mapping that begins at `begin`, or all (0).
void check_mappings(uintptr_t begin, std::string_view caller) {
  if (!any_shrunk) return;
  const std::lock_guard lock(mappings_mutex);
  for (size_t i = 0; i < mappings.size(); ++i) {
    if (mappings[i].begin == 0 || !mappings[i].shrunk) continue;
    if (begin != 0 && mappings[i].begin != begin) continue;
    fail(caller, {.argument = mapping_paths[i],
                  .expected = std::to_string(mappings[i].size) + " bytes, as when it was opened",
                  .found = "a file that was shortened or cannot be read",
                  .hint = "do not change files while they are in use"});
  }
}

}  // namespace

void check_mapped_files(std::string_view caller) { check_mappings(0, caller); }

void MappedFile::check_intact(std::string_view caller) const {
  if (!bytes_.empty()) check_mappings(reinterpret_cast<uintptr_t>(bytes_.data()), caller);
}

void sync_folder(const Path& folder, std::string_view caller) {
  const Descriptor descriptor{folder.open(O_RDONLY | O_DIRECTORY)};
  // A folder with write permission alone cannot be opened.
  if (descriptor.number < 0 || sync_retrying(descriptor.number) == 0) return;
  if (errno == EINVAL || errno == ENOTSUP) return;
  fail(caller, {.argument = folder.string(),
                .expected = "a folder to make durable",
                .found = last_error(),
                .hint = "what was written may be lost if the machine stops now: check the disk"});
}

MappedFile::MappedFile(const Path& path, std::string_view caller) {
  path.require(EntryKind::file, caller);
  // O_NONBLOCK: opening a pipe would otherwise wait for its writer.
  const Descriptor descriptor{path.open(O_RDONLY | O_NONBLOCK)};
  struct stat status = {};
  if (descriptor.number < 0 || ::fstat(descriptor.number, &status) != 0) {
    fail(caller, {.argument = path.string(), .expected = "a readable file", .found = last_error()});
  }
  if (!S_ISREG(status.st_mode)) {
    fail(caller, {.argument = path.string(),
                  .expected = "a regular file",
                  .found = S_ISDIR(status.st_mode) ? "a folder" : "something else"});
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (address == MAP_FAILED)
    fail(caller, {.argument = path.string(), .expected = "a file to map", .found = last_error()});
  bytes_ = {static_cast<const std::byte*>(address), size};
  note_mapping(bytes_, path.string());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_text(const Path& path, std::string_view caller, int64_t max_bytes) {
  const MappedFile file(path, caller);
  if (std::cmp_greater(file.bytes().size(), max_bytes)) {
    fail(caller, {.argument = path.string(),
                  .expected = "at most " + std::to_string(max_bytes) + " bytes",
                  .found = std::to_string(file.bytes().size())});
  }
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  file.check_intact(caller);
  return text;
}

AtomicFile::AtomicFile(Path path, std::string_view caller)
    : path_(std::move(path)), caller_(caller) {
  path_.require(EntryKind::file, caller_);
  remove_unfinished_files(path_);
  static std::atomic<uint64_t> count = 0;
  bool mine = false;
  while (!mine) {
    temporary_ = path_.beside(path_.filename() + temporary_suffix + std::to_string(::getpid()) +
                              "-" + std::to_string(count++));
    descriptor_ = temporary_.open(O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (descriptor_ < 0 && errno != EEXIST) refuse("to create");
    mine = descriptor_ >= 0 && lock_new_file(descriptor_);
    if (descriptor_ >= 0 && !mine) ::close(std::exchange(descriptor_, -1));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  temporary_.unlink();
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  if (!write_all(descriptor_, bytes)) refuse("to write");
}

void AtomicFile::append(std::string_view text) { append(std::as_bytes(std::span(text))); }

void AtomicFile::overwrite(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) refuse("to write");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void AtomicFile::commit() {
  if (sync_retrying(descriptor_) != 0) refuse("to make durable");
  if (!temporary_.rename_to(path_)) refuse("to put in place");
  ::close(std::exchange(descriptor_, -1));
  sync_folder(path_.parent_path(), caller_);
}

void AtomicFile::refuse(const char* doing) const {
  fail(caller_,
       {.argument = path_.string(),
        .expected = std::string("a file ") + doing,
        .found = last_error(),
        .hint = "nothing was changed: check the folder, its permissions and the free space"});
}

AppendFile::AppendFile(Path path, std::string_view caller)
    : path_(std::move(path)), caller_(caller) {
  path_.require(EntryKind::file, caller_);
  const int guard = path_.is_guarded() ? O_NONBLOCK : 0;  // as for a pipe in MappedFile
  for (const bool again : {false, true}) {
    descriptor_ = path_.open(O_WRONLY | O_CREAT | O_APPEND | guard, 0666);
    if (descriptor_ < 0) refuse();
    if (again || !has_other_names()) return;
    ::close(std::exchange(descriptor_, -1));
    const MappedFile shared(path_, caller_);
    AtomicFile own(path_, caller_);
    own.append(shared.bytes());
    own.commit();
  }
}

bool AppendFile::has_other_names() const {
  struct stat status = {};
  return path_.is_guarded() && ::fstat(descriptor_, &status) == 0 && status.st_nlink > 1;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::append(std::string_view record) {
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  if (write_all(descriptor_, std::as_bytes(std::span(record)))) return;
  const int error = errno;
  if (end >= 0 && ::ftruncate(descriptor_, end) != 0) {
    // The part of the record stays; readers leave it out.
  }
  errno = error;
  refuse();
}

void AppendFile::sync() {
  // Pipes and some devices have nothing to make durable.
  if (sync_retrying(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) refuse();
}

void AppendFile::refuse() const {
  fail(caller_, {.argument = path_.string(),
                 .expected = "a successful write",
                 .found = last_error(),
                 .hint = "is the disk full? Checkpoints so far are untouched"});
}

}  // namespace binade::io
