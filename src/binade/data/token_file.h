#pragma once

#include <filesystem>

#include "binade/data/tokens.h"

namespace binade::data {

// Whether a path names a token file, which the extension .bin says.
inline bool is_token_file(const std::filesystem::path& path) { return path.extension() == ".bin"; }

// Maps a file of token ids: a shard of llm.c (a header, 16 or 32 bits per id) or of nanoGPT (no
// header, 16 bits, or 32 if every second 16-bit word is the upper half of an id). Refuses unknown
// headers, a count that does not match the file, ids of `vocab` or more, and fewer than `least`
// ids.
Tokens read_token_file(const std::filesystem::path& path, int64_t vocab, int64_t least = 1);

enum class TokenFormat : uint8_t { llm_c, nanogpt };

// Writes ids below `vocab`: llm.c's 16-bit format up to a vocabulary of 65536, its 32-bit format
// above. The file is replaced atomically.
void write_token_file(const std::filesystem::path& path, const Tokens& tokens, int64_t vocab,
                      TokenFormat format);

}  // namespace binade::data
