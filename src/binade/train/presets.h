#pragma once

#include "binade/train/config.h"

namespace binade::train {

// Sets the model's sizes to those of config.preset.
void apply_preset(Config& config);

// Checks what depends on several keys and fills in what stands for "by the rest".
void complete(Config& config);

}  // namespace binade::train
