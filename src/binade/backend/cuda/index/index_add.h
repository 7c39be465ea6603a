#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend::cuda {

enum class NegativeIndex : uint8_t { refuse, skip };

// y[..., index[..., i, ...], ...] += x[..., i, ...] along `axis`; index has x's shape. Along axes
// of stride 0 of the index, entire rows are added. Each element of y is summed in the order of i,
// in f32 (f64 or i64 if y is), and rounded to y's type once.
void add_at(TensorView x, int axis, TensorView index, TensorView y, NegativeIndex negative);

}  // namespace binade::backend::cuda
