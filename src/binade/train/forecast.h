#pragma once

#include "binade/tensor/memory.h"
#include "binade/train/config/config.h"

namespace binade::train {

// The memory a run's training steps will take, by category, when it is highest: two steps on the
// meta device, whose books are those of a real device. Allocates and computes nothing.
memory::Statistics forecast_memory(const Config& config);

}  // namespace binade::train
