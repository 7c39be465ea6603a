#pragma once

#include <cuda.h>

#include "binade/tensor/tensor.h"

namespace binade::backend::cuda {

// Whether the active device runs kernels for compute capability 9.0 alone, the build has them
// (sm_90a; else they are empty), and the driver can describe tensors to them.
bool has_hopper_kernels();

// Describes a 16-bit tensor of at least two axes, the last one contiguous, to bulk copies: boxes of
// `rows` rows and 64 columns, swizzled as operands of matmuls are. False if the driver refuses.
// Only if has_hopper_kernels().
bool encode_boxes(CUtensorMap& map, const TensorView& x, int rows);

}  // namespace binade::backend::cuda
