#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A dense copy of dense x on another device. To the meta device only the description travels.
Tensor transfer(const Tensor& x, Device device);

}  // namespace binade::backend
