#include "binade/data/text_check.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/data/corpus.h"
#include "binade/data/unpack.h"

namespace binade::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t checked_bytes = 1 << 20;
constexpr size_t longest_character = 4;

std::string beginning_of(const fs::path& path) {
  const auto file = open_unpacked(path);
  std::string text(checked_bytes, '\0');
  size_t count = 0;
  while (count < text.size()) {
    const size_t more = file->read(text.data() + count, text.size() - count);
    if (more == 0) break;
    count += more;
  }
  text.resize(count);
  return text;
}

// The offset of the first byte that is not UTF-8. The last character may be cut.
std::optional<size_t> first_invalid(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      const bool may_be_cut = text.size() == checked_bytes && text.size() - at < longest_character;
      return may_be_cut ? std::nullopt : std::optional(at);
    }
    at += length;
  }
  return {};
}

}  // namespace

void refuse_parquet(const fs::path& path, std::string_view beginning) {
  if (!beginning.starts_with("PAR1") || beginning.find('\0') == std::string_view::npos) return;
  fail("data",
       {.argument = path.string(),
        .expected = "text or a token file",
        .found = "a Parquet file",
        .hint = fmt::format("convert it with the Python package: python -m binade "
                            "tokenize-parquet TOKENIZER {} {}",
                            path.string(), fs::path(path).replace_extension(".bin").string())});
}

std::vector<std::string> check_text(const std::string& where, bool by_bytes) {
  const fs::path path = where;
  std::error_code error;
  const fs::path unpacked = is_packed(path) ? path.stem() : path;
  if (where == builtin_source || !fs::is_regular_file(path, error) ||
      unpacked.extension() == ".jsonl")
    return {};
  const std::string text = beginning_of(path);
  refuse_parquet(path, text);
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    if (by_bytes)
      return {fmt::format("{}, byte {}: a zero byte, so this is no text; its bytes are the tokens",
                          where, zero)};
    fail("data", {.argument = fmt::format("{}, byte {}", where, zero),
                  .expected = "text in UTF-8",
                  .found = "a zero byte, as in binary files and in UTF-16",
                  .hint = "convert UTF-16: iconv -f utf-16 -t utf-8; the name of a token file ends "
                          "in .bin"});
  }
  const std::optional<size_t> invalid = by_bytes ? std::nullopt : first_invalid(text);
  if (!invalid) return {};
  return {
      fmt::format("{}, byte {}: not UTF-8, so the tokenizer may replace it; convert other "
                  "encodings, for example with iconv -f latin1 -t utf-8",
                  where, *invalid)};
}

}  // namespace binade::data
