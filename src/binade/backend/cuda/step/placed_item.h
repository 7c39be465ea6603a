#pragma once

#include "binade/backend/update.h"

namespace binade::backend::cuda {

// An item of an update and the index of its first element among those of all items.
struct PlacedItem {
  const UpdateItem* item;
  uint64_t first_index;
};

}  // namespace binade::backend::cuda
