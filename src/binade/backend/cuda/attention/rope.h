#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cuda {

// As AttentionKernels::rope says.
void rope(TensorView x, TensorView cosine, TensorView sine, int64_t start, bool inverse,
          TensorView y);

}  // namespace binade::backend::cuda
