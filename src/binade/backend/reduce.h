#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

enum class Reduction : uint8_t { sum, mean, prod, max, min };

// Reductions run over every axis where y has size 1 and x has not; x and y have the same rank.
// Sums accumulate in f32 (f64 for f64, i64 for integers) over chunks of fixed size, so the result
// does not depend on threads. A NaN makes max and min NaN.
struct ReduceKernels {
  // y = op over axes of x; adds to y if `accumulate` (sum and mean only).
  void (*reduce)(Reduction op, TensorView x, TensorView y, bool accumulate);
  // Index (i64) of the first largest (or smallest) element along one axis of x; y has size 1 there.
  void (*arg)(bool largest, TensorView x, int axis, TensorView y);
  // Two-pass variance sum((x - mean)^2) / (count - correction), and the mean in y's shape and f32
  // (f64 for f64).
  void (*variance)(TensorView x, double correction, TensorView y, TensorView mean);
  // Running sum along an axis, forwards or (for the gradient) backwards.
  void (*cumsum)(TensorView x, int axis, bool reverse, TensorView y);
};

}  // namespace binade::backend
