#include "binade/ops/quantized/mlp_matmuls.h"

#include "binade/ops/quantized/matmul.h"
#include "binade/ops/quantized/quantize.h"

namespace binade::ops {
namespace {

bool trains(const QuantizedLayer& layer) {
  return layer.weight.requires_grad() || (layer.bias.defined() && layer.bias.requires_grad());
}

// The input of `layer` that `quantize` computes. `kept`: its operands are kept for the backward.
LayerMatmuls::Matrix computed_input(const QuantizedLayer& layer, const LayerForward& forward,
                                    const Shape& shape, Device device, const Quantize& quantize,
                                    bool kept) {
  LayerMatmuls::Matrix input;
  if (kept && layer.facts.requantizes) input.again = quantize;
  amp::Quantizer quantizer = input_quantizer(layer, forward);
  quantizer.transposes &= !input.again;
  input.quantized = quantizer.quantize_fused(shape, device, quantize);
  return input;
}

std::pair<LayerMatmuls, Hidden> hidden_forward(const QuantizedLayer& up,
                                               const LayerMatmuls::Matrix& input,
                                               const LayerForward& forward) {
  if (!up.facts.stores_result) {
    const auto [matmuls, y] = values_forward(up, input, forward);
    return {matmuls, {Saved(y), {}, forward.dtype}};
  }
  const auto [matmuls, y] = stored_forward(up, input, forward);
  return {matmuls, {Saved(y.data), Saved(y.scale_inv), forward.dtype}};
}

}  // namespace

backend::StoredMatrix Hidden::stored() const {
  return is_quantized(data->dtype()) ? backend::StoredMatrix(data, scale_inv, dtype)
                                     : backend::StoredMatrix(data.get());
}

Tensor Hidden::values() const {
  return is_quantized(data->dtype()) ? dequantize(quantized_of(data, scale_inv), dtype)
                                     : data.get();
}

std::pair<MlpMatmuls, Tensor> MlpMatmuls::forward(const QuantizedLayer& up,
                                                  const QuantizedLayer& down,
                                                  const LayerMatmuls::Matrix& input,
                                                  const LayerForward& forward) {
  const Device device = input.quantized.data.device();
  const int64_t rows = input.quantized.data.size(0), width = down.weight.size(1);
  const auto [first, hidden] = hidden_forward(up, input, forward);
  const bool up_has_backward = forward.recording && (forward.input_needs_grad || trains(up));
  const LayerMatmuls::Matrix gated = computed_input(
      down, forward, {rows, width}, device,
      [hidden = hidden](const backend::QuantizedOutput& out) {
        backend::of(hidden.data.get()).quantize.quantize_swiglu(hidden.stored(), out);
      },
      up_has_backward);
  const Tensor y = Tensor::empty({rows, down.weight.size(0)}, forward.dtype, device);
  LayerForward down_forward = forward;
  down_forward.input_needs_grad = up_has_backward;
  const LayerMatmuls second(down, gated, down_forward, y);
  return {MlpMatmuls(first, second, up_has_backward ? hidden : Hidden(), up_has_backward), y};
}

void MlpMatmuls::backward(const Tensor& dy, GradSlots parameters,
                          FunctionRef<GradSlot::Target()> dinput) const {
  LayerMatmuls::Matrix dout = down_.gradient(dy, parameters[3]);
  const bool waits = down_.requantizes_input() && up_has_backward_;
  if (!waits) down_.wgrad(dout, parameters[2]);
  if (!up_has_backward_) return;
  const bool is_tight = waits && sets_peak();
  Tensor dgated =
      Tensor::empty({dy.size(0), hidden_.data->size(1) / 2}, hidden_.dtype, dy.device());
  down_.dgrad(dout, {dgated, false});
  amp::DroppedQuantized dropped;
  if (is_tight) dropped = down_.dropped(dout);
  if (!waits || is_tight) dout = {};
  dout.quantized = without_rows(dout.quantized);
  Quantized gated;
  LayerMatmuls::Matrix gradient =
      hidden_gradient(dgated, parameters[1], waits && !is_tight ? &gated : nullptr);
  dgated = {};
  if (is_tight) {
    dout.quantized = dropped.restored(
        [&](const backend::QuantizedOutput& out) { backend::of(dy).quantize.quantize(dy, out); });
  }
  if (waits) down_.wgrad(dout, parameters[2], gated);
  dout = {};
  gated = {};
  const GradSlot::Target target = dinput();
  if (target.buffer.defined()) up_.dgrad(gradient, target);
  gradient.quantized = without_rows(gradient.quantized);
  up_.wgrad(gradient, parameters[0]);
}

bool MlpMatmuls::sets_peak() const {
  // Of each element of `gated`: 2 bytes of its gradient, 4 of that of `hidden` in both orders of
  // its data, and its own.
  const int64_t bytes = (2 + 4 + 1) * hidden_.data->numel() / 2;
  const Device device = hidden_.data->device();
  return memory::allocated(device) + bytes > memory::peak(device);
}

LayerMatmuls::Matrix MlpMatmuls::hidden_gradient(const Tensor& dgated, const GradSlot& bias,
                                                 Quantized* gated) const {
  const auto& kernels = backend::of(dgated);
  return up_.gradient(
      hidden_.data->shape(), hidden_.dtype, bias,
      [&](const Tensor& dx) {
        const Tensor values = hidden_.values();
        kernels.activation.swiglu_backward({dgated, values, dx});
      },
      [&](const backend::QuantizedOutput& dx) {
        if (gated == nullptr)
          return kernels.quantize.quantize_swiglu_backward(dgated, hidden_.stored(), dx, {});
        *gated = down_.input_again([&](const backend::QuantizedOutput& out) {
          kernels.quantize.quantize_swiglu_backward(dgated, hidden_.stored(), dx, out);
        });
      });
}

}  // namespace binade::ops
