#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Running products along one axis, carried in f32 at least. Any strides. (Running sums are
// ReduceKernels'.)
struct ScanKernels {
  // y[i] = x[0] * ... * x[i]
  void (*cumprod)(TensorView x, int axis, TensorView y);
  // dx[i] = (product before i) * s[i], where s[i] = dy[i] + x[i + 1] * s[i + 1]: right for zeros
  // too.
  void (*cumprod_backward)(TensorView dy, TensorView x, int axis, TensorView dx);
};

}  // namespace binade::backend
