#pragma once

#include "binade/backend/conv.h"

// Convolutions of channels-last tensors, as in ConvKernels; weights and their gradients are
// row-major. A 1x1 convolution is one matmul; others are cuDNN's or, if it does not support them,
// those of row-major copies.
namespace binade::backend::cuda {

void channels_last_forward(const ConvForward& call);
void channels_last_backward_input(const ConvBackwardInput& call);
void channels_last_backward_weight(const ConvBackwardWeight& call);

}  // namespace binade::backend::cuda
