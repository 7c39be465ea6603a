#pragma once

#include "binade/backend/loss_scale_params.h"
#include "binade/tensor/tensor.h"

namespace binade::backend {

// A scaler's state on its device: scale f32 [1]; trackers i32 [2]: consecutive clean steps,
// overflows still tolerated.
struct ScalerKernels {
  // inverse = 1 / scale, divided in f64 and rounded to f32.
  void (*invert)(TensorView scale, TensorView inverse);
  // If found_inf (f32 [1]) is not 0, the clean steps restart from 0 and the scale shrinks once the
  // hysteresis is used up. Otherwise counts a clean step; at the interval the scale grows, if the
  // result is finite, and both counts restart.
  void (*update)(TensorView scale, TensorView trackers, TensorView found_inf,
                 const LossScaleParams& params);
};

}  // namespace binade::backend
