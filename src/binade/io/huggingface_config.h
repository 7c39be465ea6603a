#pragma once

#include <cstdint>

#include "binade/nn/language_model.h"

namespace binade::io {

// Model families whose Hugging Face layout Binade reads and writes.
enum class Family : uint8_t { gpt2, llama };

// The family of a configuration; fails for a mixture of them.
Family family_of(const nn::LanguageModelConfig& config);

}  // namespace binade::io
