#pragma once

#include "binade/tensor/tensor.h"

namespace binade::lab {

// Eight bits that values are rounded to, with one scale from the tensor's amax.
enum class EightBits : uint8_t {
  none,  // not rounded
  e4m3,
  e5m2,
  int8,  // 255 equally spaced numbers
};

// x rounded to `forward`, in x's own type; its gradient is rounded to `backward`.
Tensor fake_quantize(const Tensor& x, EightBits forward, EightBits backward);

// A matmul of x [..., in] and weight [out, in] whose operands are rounded to eight bits, in forward
// and backward: x and the weight to `forward`, the gradient to `backward`. Sums are f32.
struct EightBitMatmul {
  EightBits forward = EightBits::none, backward = EightBits::none;
};
Tensor fake_quantized_linear(const Tensor& x, const Tensor& weight, EightBitMatmul types);

// x rounded, without a gradient.
Tensor rounded_to(const Tensor& x, EightBits type);

}  // namespace binade::lab
