#pragma once

#include <cstdint>
#include <filesystem>

namespace binade::data {

// Adds what transformers' AutoTokenizer needs in the folder of a model that knows `vocab` tokens: a
// tokenizer.json for a SentencePiece model, or for bytes if `vocab` is 256 and there is no
// tokenizer, and a tokenizer_config.json beside a tokenizer.json. Existing files stay unchanged.
void add_huggingface_files(const std::filesystem::path& folder, int64_t vocab);

// Writes the tokenizer.json of a GGUF file's tokenizer into a folder, if the file has one.
void add_tokenizer_of(const std::filesystem::path& gguf, const std::filesystem::path& folder);

}  // namespace binade::data
