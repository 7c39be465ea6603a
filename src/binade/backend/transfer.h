#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A dense copy of dense x on another device. To the meta device only the description travels.
Tensor transfer(const Tensor& x, Device device);

// Copies dense x to dense y, which has the same type and shape, on any device. Small copies to a
// GPU wait for nothing.
void transfer(const Tensor& x, const Tensor& y);

}  // namespace binade::backend
