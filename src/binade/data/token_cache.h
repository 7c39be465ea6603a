#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "binade/data/tokenizer.h"
#include "binade/data/tokens.h"

namespace binade::data {

// Tokens of texts in files that are written once and then mapped. A file's name is a hash of the
// texts' files and the tokenizer, so that a change of either gives another one; a hash of its
// tokens, checked whenever it is opened, tells whether it is intact. Files are written atomically
// while the text is read in blocks, so neither the text nor its tokens need fit in memory.
struct TokenCache {
  std::filesystem::path folder;  // created if needed
};

// The tokens of a text source (text_reader.h) with the tokenizer's template around them, from the
// cache or else encoded into it. `progress` is called with the bytes of files done and those of
// all.
Tokens cached_tokens(const std::string& where, const Tokenizer& tokenizer, const TokenCache& cache,
                     const std::function<void(size_t, size_t)>& progress = {});

}  // namespace binade::data
