#include "binade/lab/experiments/fake_quantize.h"

#include "binade/ops/custom.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/quantized/quantize.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"

namespace binade::lab {

Tensor rounded_to(const Tensor& x, EightBits type) {
  if (type == EightBits::none) return x.detach();
  if (type == EightBits::int8) {
    constexpr double most = 127;
    const double amax = max(abs(x)).item();
    if (!(amax > 0)) return x.detach();
    return mul(round(mul(x, most / amax)), amax / most);
  }
  const Tensor matrix = reshape(x, {-1, x.rank() == 0 ? 1 : x.size(-1)});
  const formats::Format& format =
      type == EightBits::e4m3 ? formats::spec::e4m3 : formats::spec::e5m2;
  return reshape(dequantize(quantize(matrix, {.format = format})), x.shape());
}

Tensor fake_quantize(const Tensor& x, EightBits forward, EightBits backward) {
  const CustomOp op{
      .name = "fake_quantize",
      .forward = [=](std::span<const Tensor> inputs) { return rounded_to(inputs[0], forward); },
      .backward = [=](const Tensor& dy, std::span<const Tensor>, const Tensor&,
                      autograd::GradSlots dx) { dx[0].add(rounded_to(dy, backward)); }};
  return custom(op, {x});
}

Tensor fake_quantized_linear(const Tensor& x, const Tensor& weight, EightBitMatmul types) {
  // Gradients of the operands pass as they are: only the operands of matmuls are rounded.
  const Tensor y = linear(fake_quantize(x, types.forward, EightBits::none),
                          fake_quantize(weight, types.forward, EightBits::none));
  return fake_quantize(y, EightBits::none, types.backward);
}

}  // namespace binade::lab
