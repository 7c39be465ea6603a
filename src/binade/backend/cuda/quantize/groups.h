#pragma once

#include "binade/backend/quantize.h"

// Scales finer than a tensor (quantize_groups.cu), for the table in quantize.cu.
namespace binade::backend::cuda {

void quantize_finely(const TensorView& x, ScaleGroup group, ScaleRule rule, const TensorView& q,
                     const TensorView& inverse);
void quantize_mx(TensorView x, TensorView q, TensorView codes);
void dequantize(TensorView q, TensorView inverse, ScaleGroup group, TensorView x);

}  // namespace binade::backend::cuda
