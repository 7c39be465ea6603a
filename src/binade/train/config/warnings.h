#pragma once

#include <string>
#include <vector>

#include "binade/train/config/config.h"

namespace binade::train {

// Sentences about settings of a complete configuration that are valid but hardly meant: those
// without effect, a vocabulary far larger than the tokenizer's, and text files of JSON.
std::vector<std::string> warnings(const Config& config);

}  // namespace binade::train
