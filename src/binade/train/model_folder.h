#pragma once

#include <filesystem>
#include <string_view>

namespace binade::train {

// The folder of a model that a person means by `given`: itself where it holds a config.json, else
// the newest checkpoint of the run in it. Fails as `who` where there is neither.
std::filesystem::path model_folder(const std::filesystem::path& given, std::string_view who);

}  // namespace binade::train
