#pragma once

#include "binade/backend/quantize.h"

// Codes of matrices that are made as they are quantized; see QuantizeKernels.
namespace binade::backend::cuda {

void quantize_swiglu(TensorView x, const Codes& codes);
void quantize_swiglu_backward(TensorView dy, TensorView x, const Codes& codes);
void quantize_activation_backward(Activation activation, TensorView dy, TensorView pre_activation,
                                  const Codes& codes);
void quantize_norm(TensorView x, TensorView weight, TensorView bias, TensorView mean,
                   TensorView rstd, DType type, const Codes& codes);

}  // namespace binade::backend::cuda
