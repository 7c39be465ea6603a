#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

// Files as bytes. `caller` is the reader or writer that error messages name.
namespace binade::io {

// A regular file mapped for reading: pages are loaded on access. The file must not shrink
// meanwhile.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::string_view caller);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Makes new and removed names in `folder` durable, on file systems that support it.
void sync_folder(const std::filesystem::path& folder, std::string_view caller);

// The content of a file of at most `max_bytes`.
std::string read_text(const std::filesystem::path& path, std::string_view caller,
                      int64_t max_bytes);

// Writes a file atomically: under a temporary name in the same folder, synced to disk, then
// renamed. Without commit() the temporary file is removed and an older file of that name stays
// untouched.
class AtomicFile {
 public:
  AtomicFile(std::filesystem::path path, std::string_view caller);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void refuse(const char* doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::string caller_;
  int descriptor_ = -1;
};

}  // namespace binade::io
