#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cpu {

// y = x between any two types and any strides; see ElementwiseKernels::copy.
void copy(TensorView x, TensorView y);

}  // namespace binade::backend::cpu
