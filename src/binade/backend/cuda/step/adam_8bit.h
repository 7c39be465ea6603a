#pragma once

#include <span>

#include "binade/backend/update.h"

namespace binade::backend::cuda {

// An item of an update and the index of its first element among those of all items.
struct PlacedItem {
  const UpdateItem* item;
  uint64_t first_index;
};

// OptimizerKernels' adam of items with 8-bit moments, whose master weights are not f64. Same bits
// as on the CPU.
void adam_8bit(std::span<const PlacedItem> items, const AdamParams& hyper,
               const UpdateControl& control);

}  // namespace binade::backend::cuda
