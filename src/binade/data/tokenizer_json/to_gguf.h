#pragma once

#include <filesystem>

#include "binade/io/gguf/writer.h"
#include "binade/nn/language_model.h"

namespace binade::data {

// Adds the keys of the tokenizer in a model's folder, or of its GGUF file, and of its chat
// template. Fails, naming it, for a tokenizer that llama.cpp has no name for: another split
// pattern, a unigram model, other normalization.
void add_gguf_tokenizer(io::gguf::Writer& out, const std::filesystem::path& folder,
                        const nn::LanguageModelConfig& config);

}  // namespace binade::data
