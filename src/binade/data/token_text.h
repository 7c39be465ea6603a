#pragma once

#include <optional>
#include <string>

#include "binade/data/tokenizer.h"

namespace binade::data {

// The bytes that a token adds to a text after the token `before`: part of a character, perhaps, and
// nothing for special tokens.
std::string token_text(const Tokenizer& tokenizer, std::optional<int64_t> before, int64_t id);

}  // namespace binade::data
