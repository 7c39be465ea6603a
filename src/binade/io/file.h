#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

// Files as bytes. `caller` is the reader or writer that error messages name.
namespace binade::io {

// A regular file mapped for reading: pages are loaded on access. If the file shrinks meanwhile, a
// read of a lost page ends the process, unless guard_mapped_files() was called.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::string_view caller);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Fails if the file has lost bytes that were read; see guard_mapped_files().
  void check_intact(std::string_view caller) const;

 private:
  std::span<const std::byte> bytes_;
};

// From now on, in the whole process, reads of pages that a MappedFile has lost give zeros, and
// check_intact() fails, naming the file. Call it after reading and before using what was read.
void guard_mapped_files();
// The same for all mapped files at once, where the file of some bytes is not at hand.
void check_mapped_files(std::string_view caller);

// Makes new and removed names in `folder` durable, on file systems that support it.
void sync_folder(const std::filesystem::path& folder, std::string_view caller);

// The content of a file of at most `max_bytes`.
std::string read_text(const std::filesystem::path& path, std::string_view caller,
                      int64_t max_bytes);

// Writes a file atomically: under a temporary name in the same folder, synced to disk, then
// renamed. Without commit() the temporary file is removed and an older file of that name stays
// untouched. What killed writers of the same file have left is removed first.
class AtomicFile {
 public:
  AtomicFile(std::filesystem::path path, std::string_view caller);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);
  // Replaces bytes that were appended, such as a header with a count.
  void overwrite(int64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void refuse(const char* doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::string caller_;
  int descriptor_ = -1;  // locked, which tells a file being written from a leftover
};

// A file that grows: each append is one write of a whole record, so that a killed process leaves at
// most the last one incomplete.
class AppendFile {
 public:
  // Opens or creates it and continues at its end. Closes without a word; failures are those of
  // append() and sync().
  AppendFile(std::filesystem::path path, std::string_view caller);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // If it fails, no part of the record stays in the file.
  void append(std::string_view record);
  // Makes everything appended so far durable.
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void refuse() const;

  std::filesystem::path path_;
  std::string caller_;
  int descriptor_ = -1;
};

}  // namespace binade::io
