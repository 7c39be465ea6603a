#pragma once

#include <memory>

#include "binade/io/gguf/file.h"
#include "binade/nn/language_model.h"

// Models in GGUF files.
namespace binade::io::gguf {

// The configuration that a file's keys and tensors describe. Fails for architectures and variants
// that Binade does not have.
nn::LanguageModelConfig read_config(const File& file);

// Whether a model with learned positions may have fewer than the file.
enum class Positions : uint8_t { exact, at_least };

// Fails, naming every missing, surplus and misshapen tensor, unless the file holds the weights of
// such a model.
void check_weights(const nn::LanguageModelConfig& config, const File& file, Positions positions);
// Copies the weights into a model after these checks, converting types.
void load_weights(nn::LanguageModel& model, const File& file, Positions positions);

// The type of the weights: the widest if they differ, f32 for blocks.
DType stored_type(const File& file);

}  // namespace binade::io::gguf
