#pragma once

#include <filesystem>

#include "binade/data/tokens.h"

namespace binade::data {

// A file of token ids: a shard of llm.c (with its header, 16 or 32 bits an id) or of nanoGPT (16
// bits, no header). Refuses unknown headers, a count that is not the file's, and ids of `vocab` or
// more.
Tokens read_token_file(const std::filesystem::path& path, int64_t vocab);

}  // namespace binade::data
