#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "binade/data/tokenizer.h"

namespace binade::data {

// A tokenizer.json of Hugging Face's tokenizers package; the ids are the package's. Refuses
// anything that is not supported (docs/data.md lists it), since an ignored part gives other ids.
std::unique_ptr<const Tokenizer> open_tokenizer_json(const std::filesystem::path& path);
// open_tokenizer_json() of a file's bytes; error messages call it `name`.
std::unique_ptr<const Tokenizer> tokenizer_json_of(std::string bytes, const std::string& name);

// GPT-2's older pair of files: vocab.json and, in the same folder, merges.txt. Its model() is a
// tokenizer.json of the same ids.
std::unique_ptr<const Tokenizer> open_vocab_and_merges(const std::filesystem::path& vocab);

}  // namespace binade::data
