#pragma once

#include "binade/tensor/tensor.h"

// Batch and group norm, as backend/norm.h has them.
namespace binade::backend::cuda {

void batch_norm_forward(TensorView x, TensorView weight, TensorView bias, double eps, bool training,
                        TensorView y, TensorView mean, TensorView rstd);
void batch_norm_backward(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                         TensorView rstd, bool training, TensorView dx, TensorView dweight,
                         TensorView dbias, bool accumulate_parameters);
void group_norm_forward(TensorView x, TensorView weight, TensorView bias, double eps, TensorView y,
                        TensorView mean, TensorView rstd);
void group_norm_backward(TensorView dy, TensorView x, TensorView weight, TensorView mean,
                         TensorView rstd, TensorView dx, TensorView dweight, TensorView dbias,
                         bool accumulate_parameters);

}  // namespace binade::backend::cuda
