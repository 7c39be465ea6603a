#pragma once

#include "binade/backend/conv.h"

// Convolutions by cuDNN: f32 (never by TF32), f16 and bf16, deterministic, without bias.
namespace binade::backend::cuda::cudnn {

// As in ConvKernels, overwriting the result. False, with nothing written, if cuDNN does not support
// such tensors on the active device.
bool conv_forward(const TensorView& x, const TensorView& weight, const ConvGeometry& geometry,
                  const TensorView& y);
bool conv_backward_input(const TensorView& dy, const TensorView& weight,
                         const ConvGeometry& geometry, const TensorView& dx);
bool conv_backward_weight(const TensorView& x, const TensorView& dy, const ConvGeometry& geometry,
                          const TensorView& dweight);

}  // namespace binade::backend::cuda::cudnn
