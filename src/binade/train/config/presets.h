#pragma once

#include "binade/train/config/config.h"

namespace binade::train {

// Sets the model's sizes to those of config.preset.
void apply_preset(Config& config);

// Checks what depends on several keys and fills in what stands for "by the rest". A vocabulary that
// nobody gave is that of the tokenizer's file.
void complete(Config& config, bool vocab_given);

}  // namespace binade::train
