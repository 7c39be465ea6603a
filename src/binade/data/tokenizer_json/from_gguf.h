#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "binade/data/tokenizer.h"
#include "binade/io/gguf/file.h"

// Tokenizers of GGUF files.
namespace binade::data {

// Whether a file has a tokenizer of a kind that texts are encoded with.
bool has_tokenizer(const io::gguf::File& file);

// The text of a tokenizer.json with the ids of a file's tokenizer: of byte-level BPE whose split
// pattern is known by its name, and of SentencePiece's BPE with scores. Fails for others, naming
// them.
std::string gguf_tokenizer_json(const io::gguf::File& file);

// Its model() is gguf_tokenizer_json().
std::unique_ptr<const Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path);

}  // namespace binade::data
