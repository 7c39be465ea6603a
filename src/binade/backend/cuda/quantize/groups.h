#pragma once

#include "binade/backend/quantize.h"

// Scales finer than a tensor; see QuantizeKernels.
namespace binade::backend::cuda {

// quantize_groups without transposed data.
void quantize_fine_groups(const TensorView& x, const GroupQuantizedOutput& out);
void quantize_mx(TensorView x, const QuantizedView& out);
void dequantize(const QuantizedView& q, TensorView x);

}  // namespace binade::backend::cuda
