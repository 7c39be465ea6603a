#pragma once

#include <cstdint>

#include "binade/backend/target.h"

namespace binade::backend {

enum class Reduction : uint8_t { sum, mean, prod, max, min };

// Reductions run over every axis along which y has size 1 and x does not; x and y have the same
// rank. Sums accumulate in f32 (f64 for f64, i64 for integers) over chunks of fixed size, so the
// result does not depend on the number of threads. A NaN makes max and min NaN.
struct ReduceKernels {
  // y = op over axes of x. Only sum and mean accumulate.
  void (*reduce)(Reduction op, TensorView x, Target y);
  // Index (i64) of the first largest (or smallest) element along one axis of x; y has size 1 along
  // it.
  void (*arg)(bool largest, TensorView x, int axis, TensorView y);
  // Two-pass variance sum((x - mean)^2) / (count - correction), and the mean, which has y's shape
  // and is f32 (f64 for f64).
  void (*variance)(TensorView x, double correction, TensorView y, TensorView mean);
  // Running sum along an axis, forwards or (for the gradient) backwards.
  void (*cumsum)(TensorView x, int axis, bool reverse, TensorView y);
};

}  // namespace binade::backend
