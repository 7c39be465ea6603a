#pragma once

#include "binade/ops/quantized/layer.h"

namespace binade {

// linear() with its three matmuls quantized by the layer's recipe: forward x w^T, dgrad dy w, wgrad
// dy^T x. Sums are f32. The result has the autocast type, or x's without autocast; matmuls that the
// recipe leaves out run in that type. The weight's gradient is f32.
Tensor quantized_linear(const Tensor& x, const QuantizedLayer& layer);

}  // namespace binade
