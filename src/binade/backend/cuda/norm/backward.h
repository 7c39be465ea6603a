#pragma once

#include "binade/backend/norm.h"

namespace binade::backend::cuda {

// NormKernels::backward.
void norm_backward(const NormBackward& args);

}  // namespace binade::backend::cuda
