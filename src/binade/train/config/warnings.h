#pragma once

#include <span>
#include <string>
#include <vector>

#include "binade/train/config/config.h"

namespace binade::train {

// Sentences about settings of a complete configuration that are valid but hardly meant: those
// without effect, and a vocabulary far larger than the tokenizer's.
std::vector<std::string> warnings(const Config& config);
// The former alone, of settings that have no effect in any of these configurations.
std::vector<std::string> without_effect(std::span<const Config> configs);

}  // namespace binade::train
