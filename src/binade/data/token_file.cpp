#include "binade/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "binade/base/error.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

constexpr int64_t header_bytes = 256 * 4;

// The two kinds of llm.c's shards.
struct Kind {
  int32_t magic, version;
  int width;
};
constexpr Kind kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

int32_t word(std::span<const std::byte> bytes, size_t index) {
  int32_t value = 0;
  if (bytes.size() >= 4 * (index + 1)) std::memcpy(&value, bytes.data() + 4 * index, 4);
  return value;
}

// llm.c's magic numbers are dates. A file without a header looks like that only if its first two
// ids are 54xxx and 308.
bool has_header(int32_t first) { return first >= 20240101 && first <= 20261231; }

// Whether a file without a header has 32-bit ids: the upper half of each is then at most that of
// the largest id, for vocabularies up to 65536 zero. No text has a token of such a low id at every
// second position.
bool has_wide_ids(std::span<const std::byte> bytes, int64_t vocab) {
  constexpr size_t at_least = 32, at_most = 4096;  // ids to look at
  const size_t count = std::min(bytes.size() / 4, at_most);
  if (bytes.size() % 4 != 0 || count < at_least) return false;
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<uint32_t>(word(bytes, i));
    if (static_cast<int64_t>(id) >= std::max<int64_t>(vocab, 1 << 16)) return false;
    any |= id != 0;
  }
  return any;
}

[[noreturn]] void refuse(const std::filesystem::path& path, int64_t offset, std::string expected,
                         std::string found, std::string hint = {}) {
  fail("token file", {.argument = path.string() + ", byte " + std::to_string(offset),
                      .expected = std::move(expected),
                      .found = std::move(found),
                      .hint = std::move(hint)});
}

const Kind& kind_of(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  for (const Kind& kind : kinds) {
    if (word(bytes, 0) != kind.magic) continue;
    if (word(bytes, 1) != kind.version)
      refuse(path, 4, "version " + std::to_string(kind.version), std::to_string(word(bytes, 1)));
    return kind;
  }
  refuse(path, 0, "the magic number 20240520 or 20240801 of a shard of tokens",
         std::to_string(word(bytes, 0)), "this is another kind of llm.c file");
}

const Kind& kind_for(int64_t vocab) {
  constexpr int64_t narrow_ids = 65536;
  return kinds[vocab <= narrow_ids ? 0 : 1];
}

// The count is written once it is known.
constexpr int64_t count_offset = 8;
std::array<int32_t, header_bytes / 4> header_of(int64_t vocab) {
  return {kind_for(vocab).magic, kind_for(vocab).version};
}

void check_width(const std::filesystem::path& path, int64_t vocab, TokenFormat format) {
  if (format == TokenFormat::nanogpt && kind_for(vocab).width != 2)
    refuse(path, 0, "a vocabulary of at most 65536 for 16-bit ids", std::to_string(vocab),
           "write llm.c's format instead");
}

}  // namespace

Tokens read_token_file(const std::filesystem::path& path, int64_t vocab, int64_t least) {
  const auto file = std::make_shared<const io::MappedFile>(path, "token file");
  const auto bytes = file->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  int64_t start = 0;
  int width = 2;
  if (has_header(word(bytes, 0))) {
    const Kind& kind = kind_of(path, bytes);
    if (size < header_bytes) refuse(path, size, "a header of 1024 bytes", "the end of the file");
    start = header_bytes;
    width = kind.width;
    const int64_t count = word(bytes, 2);
    if (count < 0 || count * width != size - start) {
      refuse(path, 8, "the number of ids in the file, " + std::to_string((size - start) / width),
             std::to_string(count), "the file may be cut short");
    }
  } else if (has_wide_ids(bytes, vocab)) {
    width = 4;
  } else if (size % 2 != 0) {
    refuse(path, size - 1, "a whole number of 16-bit ids", "one byte too many");
  }
  if (size == start) refuse(path, start, "ids", "the end of the file");
  const Tokens tokens(file, bytes.data() + start, width, (size - start) / width);
  if (tokens.size() < least) {
    refuse(path, size, "at least one batch of " + std::to_string(least) + " ids",
           std::to_string(tokens.size()), "use a smaller --batch or --context");
  }
  if (tokens.largest() >= vocab) {
    for (int64_t i = 0;; ++i) {
      if (tokens[i] >= vocab)
        refuse(path, start + i * width, "an id below the vocabulary's " + std::to_string(vocab),
               std::to_string(tokens[i]), "set --vocab to what the file was made with");
    }
  }
  return tokens;
}

TokenFileWriter::TokenFileWriter(std::filesystem::path path, int64_t vocab, TokenFormat format)
    : path_(std::move(path)),
      format_(format),
      width_(kind_for(vocab).width),
      file_((check_width(path_, vocab, format), path_), "token file") {
  const auto header = header_of(vocab);
  if (format_ == TokenFormat::llm_c) file_.append(std::as_bytes(std::span(header)));
}

template <class Id>
void TokenFileWriter::append_ids(std::span<const Id> ids) {
  bytes_.clear();
  for (const Id id : ids)
    bytes_.append(reinterpret_cast<const char*>(&id), static_cast<size_t>(width_));
  file_.append(bytes_);
  count_ += std::ssize(ids);
  if (format_ == TokenFormat::llm_c && count_ > INT32_MAX)
    refuse(path_, 8, "at most 2147483647 ids, the header's largest count", "more",
           "split the text");
}

void TokenFileWriter::commit() {
  const auto count = static_cast<int32_t>(count_);
  if (format_ == TokenFormat::llm_c)
    file_.overwrite(count_offset, std::as_bytes(std::span(&count, 1)));
  file_.commit();
}

template void TokenFileWriter::append_ids(std::span<const int64_t> ids);
template void TokenFileWriter::append_ids(std::span<const int32_t> ids);

void write_token_file(const std::filesystem::path& path, const Tokens& tokens, int64_t vocab,
                      TokenFormat format) {
  TokenFileWriter writer(path, vocab, format);
  std::array<int64_t, 4096> ids;
  for (int64_t at = 0; at < tokens.size(); at += std::ssize(ids)) {
    const auto count = static_cast<size_t>(std::min(std::ssize(ids), tokens.size() - at));
    tokens.read(at, {ids.data(), count});
    writer.append(std::span<const int64_t>(ids.data(), count));
  }
  writer.commit();
}

}  // namespace binade::data
