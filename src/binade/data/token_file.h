#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "binade/data/tokens.h"
#include "binade/io/file.h"

namespace binade::data {

// Whether a path names a token file, which the extension .bin says.
inline bool is_token_file(const std::filesystem::path& path) { return path.extension() == ".bin"; }

// Maps a file of token ids: a shard of llm.c (a header, 16 or 32 bits per id) or of nanoGPT (no
// header, 16 bits, or 32 if every second 16-bit word is the upper half of an id). Refuses unknown
// headers, a count that does not match the file, ids of `vocab` or more, and fewer than `least`
// ids.
Tokens read_token_file(const std::filesystem::path& path, int64_t vocab, int64_t least = 1);

enum class TokenFormat : uint8_t { llm_c, nanogpt };

// Writes ids below `vocab` in parts: llm.c's 16-bit format up to a vocabulary of 65536, its 32-bit
// format above. commit() puts the file in place atomically.
class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path path, int64_t vocab, TokenFormat format);

  void append(std::span<const int64_t> ids) { append_ids(ids); }
  void append(std::span<const int32_t> ids) { append_ids(ids); }
  void commit();
  int64_t size() const { return count_; }

 private:
  template <class Id>
  void append_ids(std::span<const Id> ids);

  std::filesystem::path path_;
  TokenFormat format_;
  int width_;
  io::AtomicFile file_;
  int64_t count_ = 0;
  std::string bytes_;
};

// Writes all tokens.
void write_token_file(const std::filesystem::path& path, const Tokens& tokens, int64_t vocab,
                      TokenFormat format);

}  // namespace binade::data
