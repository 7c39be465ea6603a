#include "binade/ops/quantized/linear.h"

#include "binade/autograd/grad_mode.h"
#include "binade/ops/common.h"

namespace binade {
namespace {

using namespace ops;

void check_linear(const Tensor& x, const QuantizedLayer& layer) {
  require_compute("quantized_linear", "x", x);
  require_rank("quantized_linear", "weight", layer.weight, 2);
  if (x.rank() == 0 || x.size(-1) != layer.weight.size(1)) {
    fail("quantized_linear", {.argument = "x",
                              .expected = "[..., " + std::to_string(layer.weight.size(1)) + "]",
                              .found = describe(x)});
  }
  if (layer.bias.defined())
    require_shape("quantized_linear", "bias", layer.bias, {layer.weight.size(0)});
}

}  // namespace

Tensor quantized_linear(const Tensor& x, const QuantizedLayer& layer) {
  check_linear(x, layer);
  const DType dtype = linear_dtype(x.dtype());
  const amp::Autocast off(amp::disabled_autocast());  // quantized from the values as given
  const Call call(Op::linear, {x, layer.weight, layer.bias});
  const LayerForward forward{.dtype = dtype,
                             .recording = call.recording(),
                             .input_needs_grad = call.recording() && x.requires_grad(),
                             .records_amax = autograd::grad_enabled(),
                             .key = rounding_key(layer)};
  const int64_t rows = rows_of(x.shape()).rows, in = layer.weight.size(1);
  const int64_t out = layer.weight.size(0);
  begin(layer);

  LayerMatmuls::Matrix input{.quantized = {}, .values = viewed(dense(x), {rows, in})};
  if (layer.facts.quantizes_input) input = quantized_input(layer, forward, x, input.values);
  const auto [matmuls, y] = values_forward(layer, input, forward);
  const Tensor result = viewed(y, with_last_size(x.shape(), out));
  if (!forward.recording) return call.result(result);
  return call.result(
      result, [matmuls = matmuls, flat = Shape{rows, in}, out](const Tensor& dy, GradSlots dx) {
        matmuls.backward(viewed(dense(dy), {flat[0], out}), dx.subspan(1),
                         [&] { return input_target(dx[0], flat); });
      });
}

}  // namespace binade
