#include "binade/data/token_file.h"

#include <cstring>

#include "binade/base/error.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

constexpr int64_t header_bytes = 256 * 4;

// The two kinds of shards llm.c writes.
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

// llm.c's magic numbers are dates: two ids of a headerless file would have to be 54xxx and 308.
bool has_header(int32_t first) { return first >= 20240101 && first <= 20261231; }

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

}  // namespace

Tokens read_token_file(const std::filesystem::path& path, int64_t vocab) {
  const auto file = std::make_shared<const io::MappedFile>(path, "token file");
  const auto bytes = file->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  Tokens tokens;
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
  } else if (size % 2 != 0) {
    refuse(path, size - 1, "a whole number of 16-bit ids", "one byte too many");
  }
  if (size == start) refuse(path, start, "ids", "the end of the file");
  tokens = {file, bytes.data() + start, width, (size - start) / width};
  if (tokens.largest() >= vocab) {
    for (int64_t i = 0;; ++i) {
      if (tokens[i] >= vocab)
        refuse(path, start + i * width, "an id below the vocabulary's " + std::to_string(vocab),
               std::to_string(tokens[i]), "set --vocab to what the file was made with");
    }
  }
  return tokens;
}

}  // namespace binade::data
