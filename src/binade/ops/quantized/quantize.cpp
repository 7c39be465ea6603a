#include "binade/ops/quantized/quantize.h"

#include <fmt/format.h>

#include "binade/amp/recipe/quantizer.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;

void check(const Tensor& x) {
  require_compute("quantize", "x", x);
  require_rank("quantize", "x", x, 2);
}

}  // namespace

Quantized quantize(const Tensor& x, const amp::TensorRecipe& recipe) {
  check(x);
  amp::check_current(recipe);
  amp::ScaleStream none;  // of delayed scales alone
  return amp::Quantizer{recipe, none, false, false}.quantize(x);
}

Quantized quantize(const Tensor& x, double scale, DType dtype) {
  check(x);
  if (!is_quantized(dtype))
    fail("quantize",
         {.argument = "dtype", .expected = "e4m3 or e5m2", .found = std::string(name(dtype))});
  if (!(scale > 0))
    fail("quantize",
         {.argument = "scale", .expected = "more than 0", .found = fmt::format("{}", scale)});
  const Quantized result = empty_quantized(x.shape(), {.format = format_of(dtype)}, x.device());
  const Tensor factor = Tensor::empty({1}, DType::f32, x.device());
  backend::of(x).elementwise.fill(factor, scale);
  backend::of(x).elementwise.fill(result.scale_inv,
                                  1 / static_cast<double>(static_cast<float>(scale)));
  backend::of(x).quantize.quantize(x, {.scale = factor, .data = result.data});
  return result;
}

Tensor dequantize(const Quantized& q, DType dtype) {
  require_defined("dequantize", "q", q.data);
  check_quantized(q);
  const Tensor x = Tensor::empty(q.shape, dtype, q.data.device());
  if (!is_compute(dtype))
    fail("dequantize", {.argument = "dtype",
                        .expected = "f64, f32, f16 or bf16",
                        .found = std::string(name(dtype))});
  backend::of(x).quantize.dequantize(backend::QuantizedView(q), x);
  return x;
}

}  // namespace binade
