#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cuda {

// y[..., index[..., i, ...], ...] += x[..., i, ...] along `axis`; index has x's shape, and where it
// does not vary over some axes (stride 0) whole rows are added. Each element of y is summed in the
// order of i, in f32 (f64, i64 where y is that), and rounded to y's type once. Negative indices add
// nothing where `skip_negative`, else they are refused.
void add_at(TensorView x, int axis, TensorView index, TensorView y, bool skip_negative);

}  // namespace binade::backend::cuda
