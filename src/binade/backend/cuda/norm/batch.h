#pragma once

#include "binade/backend/norm.h"

// Batch and group norm of NormKernels.
namespace binade::backend::cuda {

void batch_norm_forward(const ChannelNormForward& args);
void batch_norm_backward(const ChannelNormBackward& args);
void group_norm_forward(const ChannelNormForward& args);
void group_norm_backward(const ChannelNormBackward& args);

}  // namespace binade::backend::cuda
