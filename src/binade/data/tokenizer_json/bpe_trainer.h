#pragma once

#include <string>
#include <string_view>

#include "binade/data/tokenizer_json/write.h"

namespace binade::data {

// A byte-level BPE tokenizer of `vocab` tokens (<|endoftext|>, 256 bytes, and merges) learned from
// a text, the same for any number of threads. Of the pairs that occur most often the one of the
// lowest ids is merged first, as the tokenizers package does it. Fails for a text with too few
// pairs; `name` stands for it in messages.
ByteLevelBpe train_byte_level_bpe(std::string_view text, int64_t vocab, const std::string& name);

}  // namespace binade::data
