#pragma once

#include <cstdint>

#include "binade/backend/target.h"

namespace binade::backend {

enum class SoftmaxKind : uint8_t { plain, log };

// Rows are the last axis of dense tensors [rows, width]. Maxima and sums are f32 (f64 for f64).
struct SoftmaxKernels {
  void (*forward)(SoftmaxKind kind, TensorView x, TensorView y);
  void (*backward)(SoftmaxKind kind, TensorView dy, TensorView y, Target dx);
  // y [rows] = log(sum(exp(x)))
  void (*logsumexp)(TensorView x, TensorView y);
};

}  // namespace binade::backend
