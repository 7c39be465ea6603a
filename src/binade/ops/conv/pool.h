#pragma once

#include <vector>

#include "binade/tensor/tensor.h"

namespace binade {

// Pools of x [n, c, spatial...] whose windows follow from the result's spatial sizes: window i of
// an axis runs from floor(i * in / out) to ceil((i + 1) * in / out). One size stands for all axes.
Tensor adaptive_avg_pool(const Tensor& x, const std::vector<int64_t>& sizes);
// Equal maxima of a window share its gradient.
Tensor adaptive_max_pool(const Tensor& x, const std::vector<int64_t>& sizes);

}  // namespace binade
