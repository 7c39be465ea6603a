#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Running sums and products along one axis, carried in f32 (f64 for f64, i64 for integers). Any
// strides.
struct ScanKernels {
  // y[i] = x[0] + ... + x[i], or from the other end if `reverse`.
  void (*cumsum)(TensorView x, int axis, bool reverse, TensorView y);
  // y[i] = x[0] * ... * x[i]
  void (*cumprod)(TensorView x, int axis, TensorView y);
  // dx[i] = (product before i) * s[i], where s[i] = dy[i] + x[i + 1] * s[i + 1]: right for zeros
  // too.
  void (*cumprod_backward)(TensorView dy, TensorView x, int axis, TensorView dx);
};

}  // namespace binade::backend
