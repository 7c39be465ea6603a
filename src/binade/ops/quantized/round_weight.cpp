#include "binade/ops/quantized/round_weight.h"

#include "binade/amp/trace.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/capabilities.h"
#include "binade/ops/common.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade {
namespace {

using namespace ops;

Tensor rows_of_part(const Tensor& x, const WeightPart& part) {
  return part.rows == 0 ? x : slice(x, 0, part.begin, part.begin + part.rows);
}

void round_rows(const Tensor& weight, const formats::WeightFormat& format, const Tensor& values) {
  if (!backend::capabilities(weight.device()).is_host_readable) return;  // meta
  formats::round_weight(format, {weight.data<float>(), weight.size(0), weight.size(1)},
                        values.mutable_data<float>());
}

// A view [heads, 3, rows of a head, in] of rows q, k, v.
Tensor by_head(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {3, heads, x.size(0) / (3 * heads), x.size(1)}), 0, 1);
}

void round_part(const Tensor& weight, const formats::WeightFormat& format, const Tensor& values,
                int64_t heads) {
  // The order of rows matters if several share a scale.
  if (heads == 0 || format.group_rows == 1) return round_rows(weight, format, values);
  const Tensor in_order = reshape(contiguous(by_head(weight, heads)), weight.shape());
  const Tensor rounded = Tensor::empty_like(in_order);
  round_rows(in_order, format, rounded);
  const Tensor target = by_head(values, heads);
  backend::of(values).elementwise.copy(reshape(rounded, target.shape()), target);
}

}  // namespace

Tensor round_weight(const Tensor& weight, const formats::WeightFormat& format,
                    std::span<const WeightPart> parts) {
  require_compute("round_weight", "weight", weight);
  require_rank("round_weight", "weight", weight, 2);
  if (!backend::capabilities(weight.device()).has_packed_codes)
    fail("round_weight", {.argument = "weight",
                          .expected = "one on the CPU: weight formats have no GPU kernels",
                          .found = describe(weight)});
  const NoGrad no_grad;
  amp::TracePause pause;
  Tensor source = weight.detach();
  if (source.dtype() != DType::f32) source = cast(source, DType::f32);
  source = contiguous(source);
  const Tensor values = Tensor::empty(weight.shape(), DType::f32, weight.device());
  int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.rows == 0 ? weight.size(0) : part.rows;
  if (!parts.empty() && rows < weight.size(0)) backend::of(values).elementwise.copy(source, values);
  constexpr WeightPart whole[] = {{}};
  for (const WeightPart& part : parts.empty() ? std::span<const WeightPart>(whole) : parts)
    round_part(rows_of_part(source, part), format, rows_of_part(values, part), part.heads);
  pause.resume();
  amp::trace_cast(weight, values);
  return values;
}

Tensor straight_through(const Tensor& values, const Tensor& parameter) {
  require_shape("straight_through", "values", values, parameter.shape());
  if (!parameter.is_leaf())
    fail("straight_through", {.argument = "parameter",
                              .expected = "a leaf, such as a layer's weight",
                              .found = "the result of an op"});
  const Tensor result = values.detach();
  if (parameter.requires_grad()) result.set_autograd_meta(parameter.autograd_meta());
  return result;
}

}  // namespace binade
