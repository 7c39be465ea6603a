#pragma once

#include "binade/ops/fp8/layer.h"

namespace binade {

// linear() with its three matmuls in FP8 by the layer's recipe: forward x w^T, dgrad dy w, wgrad
// dy^T x. Sums are f32. The result has the autocast type, or x's without autocast; matmuls that the
// recipe leaves out run in that type. The weight's gradient is f32.
Tensor fp8_linear(const Tensor& x, const Fp8Layer& layer);

}  // namespace binade
