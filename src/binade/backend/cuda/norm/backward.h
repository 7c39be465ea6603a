#pragma once

#include "binade/backend/norm.h"

namespace binade::backend::cuda {

// The backward of layer and rms norm, as backend/norm.h has it.
void norm_backward(NormKind kind, TensorView dy, TensorView dsum, TensorView x, TensorView weight,
                   TensorView mean, TensorView rstd, TensorView dx, bool accumulate_dx,
                   TensorView dweight, TensorView dbias, bool accumulate_parameters);

}  // namespace binade::backend::cuda
