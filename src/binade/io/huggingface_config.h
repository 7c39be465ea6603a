#pragma once

#include <cstdint>

#include "binade/nn/language_model.h"

namespace binade::io {

// The two families of models that Hugging Face has a layout for.
enum class Family : uint8_t { gpt2, llama };

// Which one a configuration is; fails for a model in between.
Family family_of(const nn::LanguageModelConfig& config);

}  // namespace binade::io
