#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Running products along one axis, accumulated in f64, of any strides. (ReduceKernels has running
// sums.)
struct ScanKernels {
  // y[i] = x[0] * ... * x[i]
  void (*cumprod)(TensorView x, int axis, TensorView y);
  // dx[i] = (product before i) * s[i], where s[i] = dy[i] + x[i + 1] * s[i + 1]. No division, so
  // zeros in x are no special case.
  void (*cumprod_backward)(TensorView dy, TensorView x, int axis, TensorView dx);
};

}  // namespace binade::backend
