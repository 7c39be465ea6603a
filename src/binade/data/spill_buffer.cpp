#include "binade/data/spill_buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "binade/base/error.h"

namespace binade::data {
namespace {

// A file that no name leads to; -1 with errno set if there can be none.
int open_nameless(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  // File systems without such files.
  std::string name = (folder / ".spill-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

SpillBuffer::SpillBuffer(int width, std::filesystem::path folder, size_t most_in_memory)
    : width_(width), folder_(std::move(folder)), most_in_memory_(most_in_memory) {}

SpillBuffer::~SpillBuffer() {
  if (file_ >= 0) ::close(file_);
}

void SpillBuffer::add(uint32_t id) {
  bytes_.append(reinterpret_cast<const char*>(&id), static_cast<size_t>(width_));
  ++count_;
  if (!folder_.empty() && bytes_.size() >= most_in_memory_) flush();
}

void SpillBuffer::flush() {
  if (file_ < 0) {
    std::error_code ignored;  // opening reports it
    std::filesystem::create_directories(folder_, ignored);
    file_ = open_nameless(folder_);
    if (file_ < 0) refuse("to create");
  }
  for (std::string_view rest = bytes_; !rest.empty();) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse("to write");
    rest.remove_prefix(static_cast<size_t>(written));
  }
  bytes_.clear();
}

Tokens SpillBuffer::finish() {
  const int64_t count = std::exchange(count_, 0);
  if (file_ < 0) return Tokens::of_ids(std::exchange(bytes_, {}), width_);
  flush();
  const auto bytes = static_cast<size_t>(count * width_);
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
  if (data == MAP_FAILED) refuse("to map");
  ::close(std::exchange(file_, -1));
  const std::shared_ptr<const void> owner(data, [bytes](void* at) { ::munmap(at, bytes); });
  return {owner, static_cast<const std::byte*>(data), width_, count};
}

void SpillBuffer::refuse(const char* doing) const {
  fail("data", {.argument = folder_.string(),
                .expected = std::string("a temporary file ") + doing + ", for encoded examples",
                .found = std::generic_category().message(errno),
                .hint = "they take up to five bytes a token there"});
}

}  // namespace binade::data
