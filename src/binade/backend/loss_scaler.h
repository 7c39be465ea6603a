#pragma once

#include <cstdint>

#include "binade/tensor/tensor.h"

namespace binade::backend {

// Dynamic loss scaling, as numbers.
struct LossScaleParams {
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;  // clean steps before the scale grows
  int64_t hysteresis = 1;   // overflows before it shrinks
  double minimum = 0;
};

// A scaler's state on its device: scale f32 [1]; trackers i32 [2]: clean steps in a row, overflows
// still tolerated.
struct ScalerKernels {
  // inverse = 1 / scale, divided in f64 and rounded to f32.
  void (*invert)(TensorView scale, TensorView inverse);
  // found_inf (f32 [1]) not 0: the scale shrinks once its hysteresis is used up, and clean steps
  // count from 0. Otherwise a clean step more; at the interval the scale grows, if the result is
  // finite, and counts restart.
  void (*update)(TensorView scale, TensorView trackers, TensorView found_inf,
                 const LossScaleParams& numbers);
};

}  // namespace binade::backend
