#pragma once

#include "binade/tensor/tensor.h"

// Kernels along one axis in which order matters, as ReduceKernels says.
namespace binade::backend::cuda {

void arg(bool largest, TensorView x, int axis, TensorView y);
void cumsum(TensorView x, int axis, bool reverse, TensorView y);

}  // namespace binade::backend::cuda
