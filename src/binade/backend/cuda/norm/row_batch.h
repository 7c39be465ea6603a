#pragma once

#include "binade/backend/norm.h"

// Batch norm of channels-last tensors, as rows of channels.
namespace binade::backend::cuda {

void row_batch_norm_forward(const RowBatchNormForward& args);
void row_batch_norm_sums(const RowBatchNormSums& args);
void row_batch_norm_backward(const RowBatchNormBackward& args);

}  // namespace binade::backend::cuda
