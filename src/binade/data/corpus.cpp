#include "binade/data/corpus.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/data/chat/examples.h"
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

// The documents of a file of JSON lines: the member "text" of each line, each ended by a newline.
std::string json_lines_text(std::string_view lines, const fs::path& path) {
  std::string all;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string_view line = lines.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      const json::Document document = json::parse(
          line, {.reader = "data", .file = path.string(), .offset = static_cast<int64_t>(begin)});
      all += document.root().at("text").string();
      all += '\n';
    }
    begin = end + 1;
  }
  return all;
}

// The text of a file. Compressed ones would be trained on as noise.
std::string file_text(const fs::path& path, int64_t limit) {
  constexpr std::pair<std::string_view, const char*> compressed[] = {{".gz", "gunzip"},
                                                                     {".zst", "unzstd"},
                                                                     {".xz", "unxz"},
                                                                     {".bz2", "bunzip2"},
                                                                     {".zip", "unzip"}};
  for (const auto& [extension, program] : compressed) {
    if (path.extension() != extension) continue;
    fail("data", {.argument = path.string(),
                  .expected = "text",
                  .found = "a compressed file",
                  .hint = "unpack it first: " + std::string(program) + " " + path.string()});
  }
  std::string text = io::read_text(path, "data", limit);
  return path.extension() == ".jsonl" ? json_lines_text(text, path) : text;
}

std::string text_below(const fs::path& folder) {
  std::string all;
  for (const fs::path& file : files_below(folder)) {
    const std::string text = file_text(file, max_bytes - static_cast<int64_t>(all.size()));
    if (text.find('\0') != std::string::npos) continue;
    all += text;
    if (!text.empty() && text.back() != '\n') all += '\n';
  }
  return all;
}

// The token file at `where`, or those in that folder in the order of their names.
std::vector<fs::path> shards_of(const fs::path& where) {
  std::error_code error;
  if (!fs::is_directory(where, error)) {
    return is_token_file(where) ? std::vector<fs::path>{where} : std::vector<fs::path>{};
  }
  std::vector<fs::path> shards;
  for (fs::directory_iterator at(where, error), end; !error && at != end; at.increment(error)) {
    if (is_token_file(at->path()) && !hidden(at->path())) shards.push_back(at->path());
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace

std::string read_text(const std::string& where) {
  if (where == builtin_source) return std::string(builtin_corpus());
  std::error_code ignored;  // io::read_text reports what is wrong
  const bool folder = fs::is_directory(where, ignored);
  std::string text = folder ? text_below(where) : file_text(where, max_bytes);
  if (text.empty()) {
    fail("data", {.argument = where,
                  .expected = folder ? "a folder with text files" : "a text",
                  .found = folder ? "none in it" : "an empty file"});
  }
  return text;
}

Tokens tokenize(std::string text, const Tokenizer& tokenizer,
                const std::function<void(size_t)>& progress) {
  if (tokenizer.model().empty()) return Tokens::of_bytes(std::move(text));
  const size_t width = tokenizer.vocab() <= 65536 ? 2 : 4;
  std::string bytes;
  const auto append = [&](const auto& ids) {
    for (const auto id : ids) bytes.append(reinterpret_cast<const char*>(&id), width);
  };
  const TemplateIds around = tokenizer.template_ids();
  append(around.before);
  tokenizer.encode_in_parts(text, [&](std::span<const int32_t> ids, size_t done) {
    append(ids);
    if (progress) progress(done);
  });
  append(around.after);
  return Tokens::of_ids(std::move(bytes), static_cast<int>(width));
}

namespace {

Tokens text_tokens(const std::string& where, const Tokenizer* tokenizer,
                   const std::function<void(size_t, size_t)>& progress = {}) {
  std::string text = read_text(where);
  if (tokenizer == nullptr) return Tokens::of_bytes(std::move(text));
  const size_t all = text.size();
  return tokenize(std::move(text), *tokenizer, [&progress, all](size_t done) {
    if (progress) progress(done, all);
  });
}

}  // namespace

Tokens read_tokens(const std::string& where, int64_t vocab, const Tokenizer* tokenizer) {
  std::vector<Tokens> runs;
  for (const fs::path& shard : shards_of(where)) runs.push_back(read_token_file(shard, vocab));
  return runs.empty() ? text_tokens(where, tokenizer) : Tokens::joined(runs);
}

Split read_split(const Source& source) {
  if (is_example_file(source.where)) return read_examples(source);
  std::vector<Tokens> train, validation;
  for (const fs::path& shard : shards_of(source.where)) {
    const bool held_out = shard.filename().string().find("val") != std::string::npos;
    (held_out ? validation : train)
        .push_back(read_token_file(shard, source.vocab, source.batch * source.context + 1));
  }
  if (!train.empty() && !validation.empty())
    return {Tokens::joined(train), Tokens::joined(validation)};
  train.insert(train.end(), validation.begin(), validation.end());
  const Tokens all = train.empty() ? text_tokens(source.where, source.tokenizer, source.progress)
                                   : Tokens::joined(train);
  return split(all, source.validation, source.context, source.where);
}

}  // namespace binade::data
