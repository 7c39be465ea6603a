#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

// Files as bytes. `who` is the reader or writer that messages name.
namespace binade::io {

// A regular file's bytes, mapped for reading: pages come in as they are touched. The file must not
// shrink meanwhile.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::string_view who);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// The whole of a file of at most `max_bytes`.
std::string read_text(const std::filesystem::path& path, std::string_view who, int64_t max_bytes);

// A file that appears whole or not at all: written under another name in the same folder, made
// durable, then renamed. Without commit() nothing stays and an older file of that name is
// untouched.
class AtomicFile {
 public:
  AtomicFile(std::filesystem::path path, std::string_view who);
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
  std::string who_;
  int descriptor_ = -1;
};

}  // namespace binade::io
