#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cpu {

// y[..., index[..., i, ...], ...] += x[..., i, ...] along `axis`; index has x's shape. If it has
// stride 0 along the other axes, entire rows are added. Each element of y is summed in the order of
// i, in f32 (f64 or i64 if y is), and rounded to y's type once.
void scatter_add(TensorView x, int axis, TensorView index, TensorView y);

}  // namespace binade::backend::cpu
