#include "binade/ops/fp8/quantize.h"

#include <fmt/format.h>

#include "binade/backend/fp8_scale.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;

void check(const Tensor& x, DType dtype) {
  require_compute("quantize", "x", x);
  require_rank("quantize", "x", x, 2);
  if (!is_fp8(dtype))
    fail("quantize",
         {.argument = "dtype", .expected = "e4m3 or e5m2", .found = std::string(name(dtype))});
}

}  // namespace

Quantized quantize(const Tensor& x, const QuantizeOptions& options) {
  check(x, options.dtype);
  if (options.group.rows < 0 || options.group.columns < 0) {
    fail("quantize", {.argument = "group",
                      .expected = "sizes of at least 0",
                      .found = std::to_string(options.group.rows) + " x " +
                               std::to_string(options.group.columns)});
  }
  const ScaleGroup group = options.mx ? ScaleGroup{1, backend::mx_group} : options.group;
  Quantized result{Tensor::empty(x.shape(), options.dtype, x.device()), {}, group};
  result.scale_inv =
      Tensor::empty(scale_shape(x.shape(), group), options.mx ? DType::u8 : DType::f32, x.device());
  const auto& kernels = backend::of(x).quantize;
  if (options.mx) {
    kernels.quantize_mx(x, result.data, result.scale_inv);
  } else {
    kernels.quantize_groups(x, {.group = group,
                                .rule = {.eps = options.eps, .power_of_two = options.power_of_two},
                                .data = result.data,
                                .scale_inv = result.scale_inv});
  }
  return result;
}

Quantized quantize(const Tensor& x, double scale, DType dtype) {
  check(x, dtype);
  if (!(scale > 0))
    fail("quantize",
         {.argument = "scale", .expected = "more than 0", .found = fmt::format("{}", scale)});
  Quantized result{Tensor::empty(x.shape(), dtype, x.device()),
                   Tensor::empty({1, 1}, DType::f32, x.device()),
                   {}};
  const Tensor factor = Tensor::empty({1}, DType::f32, x.device());
  backend::of(x).elementwise.fill(factor, scale);
  backend::of(x).elementwise.fill(result.scale_inv,
                                  1 / static_cast<double>(static_cast<float>(scale)));
  backend::of(x).quantize.quantize(x, {.scale = factor, .data = result.data});
  return result;
}

Tensor dequantize(const Quantized& q, DType dtype) {
  require_defined("dequantize", "q", q.data);
  const Tensor x = Tensor::empty(q.data.shape(), dtype, q.data.device());
  if (!is_compute(dtype))
    fail("dequantize", {.argument = "dtype",
                        .expected = "f64, f32, f16 or bf16",
                        .found = std::string(name(dtype))});
  backend::of(x).quantize.dequantize(q.data, q.scale_inv, q.group, x);
  return x;
}

}  // namespace binade
