#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cpu {

// y[..., index[..., i, ...], ...] += x[..., i, ...] along `axis`; index has x's shape, and where it
// does not vary over the other axes (stride 0) whole rows are added. Each element of y is summed in
// the order of i, in f32 (f64, i64 where y is that), and rounded to y's type once.
void scatter_add(TensorView x, int axis, TensorView index, TensorView y);

}  // namespace binade::backend::cpu
