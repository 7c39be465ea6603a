#pragma once

#include "binade/backend/quantize.h"

// Matrices that are quantized as they are computed; see QuantizeKernels.
namespace binade::backend::cuda {

void quantize_swiglu(const StoredMatrix& x, const QuantizedOutput& out);
void quantize_swiglu_backward(TensorView dy, const StoredMatrix& x, const QuantizedOutput& out,
                              const QuantizedOutput& gated);
void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const QuantizedOutput& out);
void quantize_norm(const NormOperands& norm, const QuantizedOutput& out);
void quantize_rope(const RotatedHeads& heads, const QuantizedOutput& out);

}  // namespace binade::backend::cuda
