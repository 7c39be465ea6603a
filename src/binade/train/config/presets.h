#pragma once

#include "binade/train/config/config.h"

namespace binade::train {

// Sets the model's family and sizes, the batch, the steps and the learning rate to those of
// config.preset.
void apply_preset(Config& config);

// Sets the steps and the learning rate to those for a model that has been trained before.
void apply_fine_tuning(Config& config);

// Sets the model's family and sizes, and the tokenizer if there is one, to those of
// config.init_from: a model's folder or a run's.
void apply_init_from(Config& config);

// Sets the options of adapters to those of config.lora.adapter, and init_from to its base unless it
// is given.
void apply_adapter(Config& config);

// With adapters, stores the frozen weights in bf16 if the matmuls use that type: f32 would only
// take memory.
void choose_params(Config& config);

// The configuration in another precision, without the settings that do not go with it.
Config with_precision(Config config, Precision precision);

// Checks what depends on several keys and replaces values that stand for a default. Unless the
// vocabulary is given, it becomes that of the tokenizer's file.
void complete(Config& config, bool vocab_given);

}  // namespace binade::train
