#pragma once

#include <cstdint>

#include "binade/tensor/device.h"

namespace binade::train {

// Memory of a device in bytes: of a GPU, or of the machine, or of the control group that this
// process is limited to.
int64_t total_memory(Device device);
// Of that, what nobody uses now. 0 if unknown.
int64_t free_memory(Device device);

}  // namespace binade::train
