#include "binade/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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

}  // namespace

void sync_folder(const std::filesystem::path& folder, std::string_view caller) {
  const Descriptor descriptor{
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  // A folder with write permission alone cannot be opened.
  if (descriptor.number < 0 || ::fsync(descriptor.number) == 0) return;
  if (errno == EINVAL || errno == ENOTSUP) return;
  fail(caller, {.argument = folder.string(),
                .expected = "a folder to make durable",
                .found = last_error(),
                .hint = "what was written may be lost if the machine stops now: check the disk"});
}

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view caller) {
  // O_NONBLOCK: opening a pipe would otherwise wait for its writer.
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
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
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_text(const std::filesystem::path& path, std::string_view caller,
                      int64_t max_bytes) {
  const MappedFile file(path, caller);
  if (std::cmp_greater(file.bytes().size(), max_bytes)) {
    fail(caller, {.argument = path.string(),
                  .expected = "at most " + std::to_string(max_bytes) + " bytes",
                  .found = std::to_string(file.bytes().size())});
  }
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

AtomicFile::AtomicFile(std::filesystem::path path, std::string_view caller)
    : path_(std::move(path)), caller_(caller) {
  static std::atomic<uint64_t> count = 0;
  do {
    temporary_ = path_;
    temporary_ += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) refuse("to create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("to write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) refuse("to make durable");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) refuse("to put in place");
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

}  // namespace binade::io
