#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

// alpha * (exp(x) - 1) below 0, x above.
Tensor elu(const Tensor& x, double alpha = 1);
// x * tanh(softplus(x)).
Tensor mish(const Tensor& x);
// clamp(x / 6 + 1 / 2, 0, 1), and x times that.
Tensor hardsigmoid(const Tensor& x);
Tensor hardswish(const Tensor& x);

// silu(gate) * up of x [..., 2 * width], which holds gate then up.
Tensor swiglu(const Tensor& x);
// swiglu(x), of which a kernel may have computed the result along with x: `given`, [rows, width] of
// x's type, or undefined.
Tensor swiglu(const Tensor& x, const Tensor& given);
Tensor swiglu_composite(const Tensor& x);

// Zeroes elements with probability p and scales the rest by 1 / (1 - p); returns x unless
// `training`. The mask is a function of the thread's random context (seed, step, stream) and the
// element's index.
Tensor dropout(const Tensor& x, double p, bool training = true);

// max(x, 0) + weight * min(x, 0); weight has one element or one per channel (axis 1).
Tensor prelu(const Tensor& x, const Tensor& weight);

}  // namespace binade
