#pragma once

#include <filesystem>

#include "binade/nn/language_model.h"

// Starting from the weights of an existing model.
namespace binade::train {

// Copies the weights of a model's folder, or of a run's, into `model`. Fails, naming the first size
// that differs, if they are of another model; their context may be longer, not shorter.
void load_initial_weights(nn::LanguageModel& model, const std::filesystem::path& given);

// The checks of load_initial_weights() without reading them: returns the model's folder.
std::filesystem::path check_initial_weights(const nn::LanguageModelConfig& expected,
                                            const std::filesystem::path& given);

// Fails, naming the first size that differs, unless a config.json describes the model `expected`.
void check_same_model(const nn::LanguageModelConfig& expected, const std::filesystem::path& file,
                      const std::string& hint);

}  // namespace binade::train
