#include "binade/data/text_reader.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/corpus.h"
#include "binade/data/text_check.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t block_bytes = 1 << 20;
// A line of JSON is parsed as a whole. Longer ones are rather files without line ends.
constexpr size_t max_line = 256 << 20;

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    if (is_hidden(at->path())) {
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

// Other compressed files would be trained on as noise.
void check_format(const fs::path& path) {
  constexpr std::pair<std::string_view, const char*> packed[] = {
      {".xz", "unxz"}, {".bz2", "bunzip2"}, {".zip", "unzip"}};
  for (const auto& [extension, program] : packed) {
    if (path.extension() != extension) continue;
    fail("data", {.argument = path.string(),
                  .expected = "text, or text packed as .gz or .zst",
                  .found = "another kind of compressed file",
                  .hint = "unpack it first: " + std::string(program) + " " + path.string()});
  }
}

bool is_json_lines(const fs::path& path) {
  return (is_packed(path) ? path.stem() : path).extension() == ".jsonl";
}

}  // namespace

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

// The text of one file.
class TextReader::File {
 public:
  explicit File(const fs::path& path)
      : path_(path),
        bytes_((check_format(path), open_unpacked(path))),
        lines_(is_json_lines(path)) {
    read_block();
    refuse_parquet(path_, block_);
    if (!lines_ || !block_.starts_with(byte_order_mark)) return;
    block_.erase(0, byte_order_mark.size());
    offset_ = static_cast<int64_t>(byte_order_mark.size());
  }

  // Whether the first block has a zero byte, as other files than texts do.
  bool is_binary() const { return block_.find('\0') != std::string::npos; }
  int64_t consumed() const { return bytes_->consumed(); }
  int64_t size() const { return bytes_->size(); }
  bool ends_line() const { return ends_line_; }

  // Appends text; false at the end.
  bool read(std::string& text) {
    const size_t before = text.size();
    while (text.size() == before) {
      if (block_.empty() && !read_block()) return false;
      lines_ ? take_lines(text) : take_all(text);
    }
    ends_line_ = text.back() == '\n';
    return true;
  }

 private:
  // Appends to the block; false if nothing is left.
  bool read_block() {
    const size_t before = block_.size();
    size_t count = 0;
    block_.resize(before + block_bytes);
    while (count < block_bytes) {
      const size_t more = bytes_->read(block_.data() + before + count, block_bytes - count);
      if (more == 0) break;
      count += more;
    }
    block_.resize(before + count);
    return count > 0;
  }

  void take_all(std::string& text) {
    text += block_;
    block_.clear();
  }

  // Takes the complete lines of the block; at the end of the file, all that is left.
  void take_lines(std::string& text) {
    size_t end = block_.rfind('\n');
    while (end == std::string::npos && read_block()) {
      if (block_.size() > max_line)
        fail("data", {.argument = path_.string() + ", byte " + std::to_string(offset_),
                      .expected = "lines of at most " + std::to_string(max_line) + " bytes",
                      .found = "a longer one"});
      end = block_.rfind('\n');
    }
    const size_t taken = end == std::string::npos ? block_.size() : end + 1;
    for (size_t begin = 0; begin < taken;) {
      const size_t stop = std::min(block_.find('\n', begin), taken);
      add_line(std::string_view(block_).substr(begin, stop - begin), begin, text);
      begin = stop + 1;
    }
    offset_ += static_cast<int64_t>(taken);
    block_.erase(0, taken);
  }

  void add_line(std::string_view line, size_t begin, std::string& text) const {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const json::Document document =
        json::parse(line, {.reader = "data",
                           .file = path_.string(),
                           .offset = offset_ + static_cast<int64_t>(begin)});
    const json::Value* found = document.root().find("text");
    if (found == nullptr)
      document.root().refuse(
          R"(a member "text")", "none of that name",
          "lines are all texts or, from the first on, all examples: messages, prompt and "
          "completion, or instruction and output; several files of examples are named with "
          "weights, --data 1*a.jsonl,1*b.jsonl");
    text += found->string();
    text += '\n';
  }

  fs::path path_;
  std::unique_ptr<Unpacker> bytes_;
  bool lines_, ends_line_ = true;
  std::string block_;
  int64_t offset_ = 0;  // of the block in the unpacked file
};

TextReader::TextReader(const std::string& where) : where_(where) {
  is_builtin_ = where == builtin_source;
  if (is_builtin_) {
    total_ = static_cast<int64_t>(builtin_corpus().size());
    return;
  }
  std::error_code ignored;  // opening the file reports it
  is_folder_ = fs::is_directory(where, ignored);
  files_ = is_folder_ ? files_below(where) : std::vector<fs::path>{where};
  for (const fs::path& file : files_) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (!error) total_ += static_cast<int64_t>(size);
  }
}

TextReader::~TextReader() = default;

bool TextReader::open_next() {
  while (next_ < files_.size()) {
    file_ = std::make_unique<File>(files_[next_++]);
    if (!is_folder_ || !file_->is_binary()) return true;
    close();
  }
  return false;
}

void TextReader::close() {
  finished_ += file_->size();
  file_.reset();
}

int64_t TextReader::consumed() const {
  return finished_ + (file_ != nullptr ? file_->consumed() : 0);
}

bool TextReader::read(std::string& text) {
  if (is_builtin_) {
    if (any_text_) return false;
    text += builtin_corpus();
    finished_ = total_;
    return any_text_ = true;
  }
  while (file_ != nullptr || open_next()) {
    if (file_->read(text)) return any_text_ = true;
    const bool lacks_newline = is_folder_ && !file_->ends_line();
    close();
    if (lacks_newline) {
      text += '\n';
      return true;
    }
  }
  if (!any_text_) {
    fail("data", {.argument = where_,
                  .expected = is_folder_ ? "a folder with text files" : "a text",
                  .found = is_folder_ ? "none in it" : "an empty file"});
  }
  return false;
}

}  // namespace binade::data
