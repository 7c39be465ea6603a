#pragma once

#include "binade/train/config/config.h"

namespace binade::train {

// Fails if run() would refuse to start: checks the device, the tokenizer and the data, the run's
// folder, and the model or the checkpoint to start from. Writes nothing but the tokens of large
// texts, which the run will find (data/token_cache.h). `ranks`: processes of the run.
void check_run(const Config& config, int ranks = 1);
// Fails if this version cannot connect ranks on the device.
void check_rank_device(Device device, int ranks);
// Fails if that many ranks could not share such a run, whatever their device.
void check_ranks(const Config& config, int ranks);

}  // namespace binade::train
