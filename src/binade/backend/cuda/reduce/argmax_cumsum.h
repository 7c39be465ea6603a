#pragma once

#include "binade/tensor/tensor.h"

// The entries of ReduceKernels in which the order along an axis matters.
namespace binade::backend::cuda {

void arg(bool largest, TensorView x, int axis, TensorView y);
void cumsum(TensorView x, int axis, bool reverse, TensorView y);

}  // namespace binade::backend::cuda
