#pragma once

#include <filesystem>
#include <memory>

#include "binade/nn/language_model.h"

namespace binade::train {

// The model of a folder with weights in f32, for files of other types: of a checkpoint that trained
// 16-bit parameters, its master weights, which are more exact than the weights it holds; an adapter
// is merged.
std::unique_ptr<nn::LanguageModel> load_exact(const std::filesystem::path& folder);

}  // namespace binade::train
