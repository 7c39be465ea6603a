#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// A dense copy of dense x on another device; on the meta device a tensor without data.
Tensor transfer(const Tensor& x, Device device);

// Copies dense x to dense y of the same type and shape. Small copies to a GPU do not wait.
void transfer(const Tensor& x, const Tensor& y);

}  // namespace binade::backend
