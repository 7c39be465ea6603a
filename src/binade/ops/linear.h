#pragma once

#include "binade/tensor/tensor.h"

namespace binade {

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };

// activation(x weight^T + bias): x [..., in], weight [out, in], bias [out] or undefined. The bias
// and the activation happen inside the product, before its one rounding.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

// The same by plain ops: the definition and the oracle.
Tensor linear_composite(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Activation activation = Activation::none);

// y[..., o] = a weight[o] b + bias[o]: a [..., i], b [..., j], weight [o, i, j].
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});

}  // namespace binade
