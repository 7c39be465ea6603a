#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "binade/data/unpack.h"

namespace binade::data {

// What some programs write before UTF-8 text. Lines of JSON may begin with it.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// Whether a file or folder is hidden: its name begins with a dot.
bool is_hidden(const std::filesystem::path& path);

// Reads the text of a source (corpus.h) in blocks, so that it need not fit in memory: a file, all
// text files below a folder in the order of their paths, each ended by a newline, or
// builtin_source. Files that end in .gz or .zst are unpacked; a .jsonl file is the texts of its
// lines' "text" members, each ended by a newline. Of a folder, hidden files, links and files with a
// zero byte in their first megabyte are skipped.
class TextReader {
 public:
  explicit TextReader(const std::string& where);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  // Appends a block of text. False, with nothing appended, at the end. Fails if there was no text
  // at all.
  bool read(std::string& text);

  // Bytes of the files read so far, and of all: compressed ones by their size on disk.
  int64_t consumed() const;
  int64_t total() const { return total_; }
  const std::string& where() const { return where_; }
  // The files, in order; none of builtin_source.
  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  class File;
  bool open_next();
  void close();

  std::string where_;
  bool is_folder_ = false, is_builtin_ = false, any_text_ = false;
  std::vector<std::filesystem::path> files_;
  size_t next_ = 0;
  std::unique_ptr<File> file_;
  int64_t total_ = 0, finished_ = 0;
};

}  // namespace binade::data
