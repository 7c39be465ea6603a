#include "binade/data/corpus.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "binade/base/error.h"
#include "binade/data/token_file.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_bytes = int64_t{8} << 30;

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    if (hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (std::error_code ignored;
               at->symlink_status(ignored).type() == fs::file_type::regular) {
      files.push_back(at->path());
    }
  }
  if (error)
    fail("data",
         {.argument = folder.string(), .expected = "a readable folder", .found = error.message()});
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_below(const fs::path& folder) {
  std::string all;
  for (const fs::path& file : files_below(folder)) {
    const std::string text =
        io::read_text(file, "data", max_bytes - static_cast<int64_t>(all.size()));
    if (text.find('\0') != std::string::npos) continue;
    all += text;
    if (!text.empty() && text.back() != '\n') all += '\n';
  }
  return all;
}

}  // namespace

std::string read_text(const std::string& path) {
  std::error_code ignored;  // io::read_text says what is wrong
  const bool folder = fs::is_directory(path, ignored);
  std::string text = folder ? text_below(path) : io::read_text(path, "data", max_bytes);
  if (text.empty()) {
    fail("data", {.argument = path,
                  .expected = folder ? "a folder with text files" : "a text",
                  .found = folder ? "none in it" : "an empty file"});
  }
  return text;
}

Tokens read_tokens(const std::string& where, int64_t vocab) {
  if (where == "builtin") return Tokens::of_bytes(std::string(builtin_corpus()));
  if (where.ends_with(".bin")) return read_token_file(where, vocab);
  return Tokens::of_bytes(read_text(where));
}

}  // namespace binade::data
