#pragma once

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Rows are the last axis of [rows, width], dense. Maxima and sums are f32 (f64 for f64).
struct SoftmaxKernels {
  void (*forward)(bool log, TensorView x, TensorView y);
  void (*backward)(bool log, TensorView dy, TensorView y, TensorView dx, bool accumulate);
  // y [rows] = log(sum(exp(x)))
  void (*logsumexp)(TensorView x, TensorView y);
};

}  // namespace binade::backend
