#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "binade/io/path.h"

// Files as bytes. `caller` is the reader or writer that error messages name.
namespace binade::io {

// A regular file mapped for reading: pages are loaded on access. If the file shrinks meanwhile, a
// read of a lost page ends the process, unless guard_mapped_files() was called.
class MappedFile {
 public:
  MappedFile(const Path& path, std::string_view caller);
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
// check_intact() of all mapped files, for callers that do not know which file some bytes are from.
void check_mapped_files(std::string_view caller);

// Makes new and removed names in `folder` durable, on file systems that support it.
void sync_folder(const Path& folder, std::string_view caller);

// The content of a file of at most `max_bytes`.
std::string read_text(const Path& path, std::string_view caller, int64_t max_bytes);

// Writes a file atomically: under a temporary name in the same folder, synced to disk, then
// renamed. Without commit() the temporary file is removed and an older file of that name stays
// untouched. What killed writers of the same file have left is removed first. Of a guarded path,
// only a file is replaced.
class AtomicFile {
 public:
  AtomicFile(Path path, std::string_view caller);
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

  Path path_, temporary_;
  std::string caller_;
  int descriptor_ = -1;  // locked, which tells a file being written from a leftover
};

// A file that grows: each append is one write of a whole record, so that a killed process leaves at
// most the last one incomplete.
class AppendFile {
 public:
  // Opens or creates it and continues at its end. Of a guarded path, a file with other names (hard
  // links) is replaced by a copy first, so that they keep their content. Closes without a word;
  // failures are those of append() and sync().
  AppendFile(Path path, std::string_view caller);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // If it fails, no part of the record stays in the file.
  void append(std::string_view record);
  // Makes everything appended so far durable.
  void sync();
  const Path& path() const { return path_; }

 private:
  [[noreturn]] void refuse() const;
  bool has_other_names() const;

  Path path_;
  std::string caller_;
  int descriptor_ = -1;
};

}  // namespace binade::io
