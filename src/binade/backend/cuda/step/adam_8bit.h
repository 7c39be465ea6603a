#pragma once

#include <span>

#include "binade/backend/cuda/step/placed_item.h"
#include "binade/backend/update_rules.h"

namespace binade::backend::cuda {

// OptimizerKernels' adam of items with 8-bit moments, whose master weights are not f64. Same bits
// as on the CPU.
void adam_8bit(std::span<const PlacedItem> items, const AdamParams& hyper,
               const UpdateControl& control);

}  // namespace binade::backend::cuda
