#pragma once

#include <filesystem>

#include "binade/nn/language_model.h"
#include "binade/train/config/config.h"

// Starting from a model that is there already.
namespace binade::train {

// Sets the model's family and sizes to those of config.init_from: a model's folder or a run's.
void apply_init_from(Config& config);

// Copies the weights of a folder in. Fails, naming what differs, where it is of another model; its
// context may be longer than the model's, not shorter.
void load_initial_weights(nn::LanguageModel& model, const std::filesystem::path& given);

// Fails, naming the first size that differs, where a config.json is of another model than `ours`.
void check_same_model(const nn::LanguageModelConfig& ours, const std::filesystem::path& file,
                      const std::string& hint);

}  // namespace binade::train
