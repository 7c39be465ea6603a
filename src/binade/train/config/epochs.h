#pragma once

#include <cstdint>

#include "binade/data/tokens.h"
#include "binade/train/config/config.h"

namespace binade::train {

// The steps of one pass over the training data: over every row of documents, or over as many tokens
// as the data have. 0 for mixtures, which are drawn by weights and never passed over.
double steps_per_epoch(const Config& config, const data::Tokens& train);

// The steps of config.train.epochs, rounded up. Reads the configured data. Fails for mixtures.
int64_t steps_of_epochs(const Config& config);

// "3", "0.5", "2.25".
std::string epochs_text(double epochs);

}  // namespace binade::train
