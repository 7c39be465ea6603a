#pragma once

#include <filesystem>

#include "binade/data/tokens.h"

namespace binade::data {

// A file of token ids: a shard of llm.c (with its header, 16 or 32 bits an id) or of nanoGPT (16
// bits, no header), mapped. Refuses unknown headers, a count that is not the file's, ids of `vocab`
// or more, and fewer than `least` ids.
Tokens read_token_file(const std::filesystem::path& path, int64_t vocab, int64_t least = 1);

enum class TokenFormat : uint8_t { llm_c, nanogpt };

// Writes ids below `vocab`: llm.c's 16 bits up to a vocabulary of 65536, its 32 bits above. The
// file appears whole or not at all.
void write_token_file(const std::filesystem::path& path, const Tokens& tokens, int64_t vocab,
                      TokenFormat format);

}  // namespace binade::data
