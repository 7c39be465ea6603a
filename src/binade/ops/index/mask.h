#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// x with `value` where mask (bool, broadcast to x's shape) is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
// The elements of x at which mask (bool) is true, as one line; both are broadcast to one shape.
// Waits for a GPU, as the number of elements decides the result's shape.
Tensor masked_select(const Tensor& x, const Tensor& mask);
// Indices of the elements that are not zero: i64 [count, rank], in row-major order. Waits for a
// GPU.
Tensor nonzero(const Tensor& x);

}  // namespace binade
