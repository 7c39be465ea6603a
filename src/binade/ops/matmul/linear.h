#pragma once

#include <utility>

#include "binade/backend/activation_function.h"
#include "binade/tensor/tensor.h"

namespace binade {

// activation(x weight^T + bias): x [..., in], weight [out, in], bias [out] or undefined. The matmul
// applies bias and activation itself, in f32 (f64 for f64), before it rounds the result to x's
// type. For 16-bit types CPUs round the activation's argument to that type first; GPUs may.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

// linear() by plain ops: the definition and the oracle.
Tensor linear_composite(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Activation activation = Activation::none);

// linear(x, weight, bias), and swiglu of it if a kernel of the device computes both in one pass:
// swiglu(first, second) records that op.
std::pair<Tensor, Tensor> linear_with_swiglu(const Tensor& x, const Tensor& weight,
                                             const Tensor& bias = {});

// The activation as an op of its own.
Tensor activate(const Tensor& x, Activation activation);

// y[..., o] = a weight[o] b + bias[o]: a [..., i], b [..., j], weight [o, i, j].
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

}  // namespace binade
