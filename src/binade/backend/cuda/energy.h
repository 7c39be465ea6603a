#pragma once

#include <optional>

#include "binade/tensor/device.h"

namespace binade::backend::cuda {

// See backend::energy_joules.
std::optional<double> energy_joules(Device device);

}  // namespace binade::backend::cuda
