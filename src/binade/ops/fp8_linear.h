#pragma once

#include <memory>

#include "binade/amp/fp8.h"
#include "binade/ops/linear.h"

namespace binade {

// linear() with its three products in FP8 by the recipe: forward x w^T, dgrad dy w, wgrad dy^T x.
// Scales and histories are in `state`, shared with the module. Sums are f32; the result has the
// autocast type, or x's without autocast; the weight's gradient is f32. Products the recipe leaves
// out run in that type.
Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                  const amp::Fp8Recipe& recipe, const std::shared_ptr<amp::Fp8Linear>& state);

}  // namespace binade
