#pragma once

#include "binade/train/config/config.h"

namespace binade::train {

// Fails if run() would refuse to start: checks the device, the tokenizer and the data, the run's
// folder, and the model or the checkpoint to start from. Writes nothing but the tokens of large
// texts, which the run will find (data/token_cache.h).
void check_run(const Config& config);

}  // namespace binade::train
