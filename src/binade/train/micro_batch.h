#pragma once

#include "binade/amp/recipe/state.h"
#include "binade/data/batches.h"
#include "binade/nn/language_model.h"
#include "binade/train/config/config.h"

namespace binade::train {

// The loss of one micro-batch of a step (counted from 0), in the precision of the configuration: a
// pure function of its arguments.
Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::RecipeState& recipe,
                  const data::Tokens& tokens, int64_t step, int64_t micro);

data::Batch on_device(const data::Batch& batch, Device device);

}  // namespace binade::train
