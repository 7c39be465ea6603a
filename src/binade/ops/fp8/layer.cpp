#include "binade/ops/fp8/layer.h"

#include <optional>

#include "binade/amp/trace.h"
#include "binade/ops/common.h"
#include "binade/ops/fp8/matmul.h"
#include "binade/ops/fp8/quantize.h"

namespace binade::ops {
namespace {

using amp::Fp8Quantizer;
using amp::Fp8Role;

ScaledMatrix as_type(const Tensor& values, DType dtype) { return {converted(values, dtype)}; }

// Whether the forward's data of the weight need not outlive it: the backward quantizes the weight
// again, or reads the transposed data alone.
bool drops_weight_rows(const Fp8Layer& layer) {
  const Fp8Quantizer quantizer{*layer.recipe, Fp8Role::weight, layer.state->weight, true};
  return requantizes(layer) || (layer.recipe->scaling == amp::Fp8Scaling::delayed &&
                                quantizer.writes_transposed(layer.weight.device()));
}

}  // namespace

Fp8Quantizer input_quantizer(const Fp8Layer& layer, const Fp8Forward& forward) {
  return {*layer.recipe, Fp8Role::activation, layer.state->input, forward.records_amax};
}

bool requantizes(const Fp8Layer& layer) {
  const amp::Fp8Recipe& recipe = *layer.recipe;
  return layer.requantizes && recipe.scaling == amp::Fp8Scaling::delayed && recipe.forward &&
         recipe.dgrad && recipe.wgrad;
}

bool stores_result(const Fp8Layer& layer) {
  return layer.is_hidden && layer.activation == Activation::none &&
         amp::stores_hidden(*layer.recipe);
}

void begin(const Fp8Layer& layer) {
  layer.state->begin(*layer.recipe, layer.weight, stores_result(layer));
}

DType linear_dtype(DType input) {
  const amp::AutocastState& state = amp::autocast_state();
  return state.enabled ? state.dtype : input;
}

Shape with_last_size(Shape shape, int64_t size) {
  shape[shape.rank() - 1] = size;
  return shape;
}

GradSlot::Target input_target(const GradSlot& slot, const Shape& flat) {
  if (!slot.needs_grad()) return {{}, false};
  GradSlot::Target target = slot.target();
  target.buffer = viewed(target.buffer, flat);
  return target;
}

Fp8LayerMatmuls::Matrix quantized_input(const Fp8Layer& layer, const Fp8Forward& forward,
                                        const Tensor& x, const Tensor& values) {
  Fp8LayerMatmuls::Matrix input{.quantized = {}, .values = values};
  if (forward.recording && requantizes(layer) && is_kept(x)) {
    input.again = [saved = Saved(values)](const backend::QuantizedOutput& out) {
      backend::of(saved.get()).quantize.quantize(saved, out);
    };
  }
  Fp8Quantizer quantizer = input_quantizer(layer, forward);
  quantizer.rows_only = static_cast<bool>(input.again);
  input.quantized = quantizer.quantize(values);
  return input;
}

std::pair<Fp8LayerMatmuls, Quantized> stored_forward(const Fp8Layer& layer,
                                                     const Fp8LayerMatmuls::Matrix& input,
                                                     const Fp8Forward& forward) {
  const Tensor& rows = input.quantized.data;
  Fp8Quantizer quantizer{*layer.recipe, Fp8Role::activation, layer.state->result,
                         forward.records_amax};
  quantizer.rows_only = true;  // no matmul reads it
  std::optional<Fp8LayerMatmuls> matmuls;
  const Quantized y = quantizer.quantize_fused(
      {rows.size(0), layer.weight.size(0)}, rows.device(),
      [&](const backend::QuantizedOutput& out) { matmuls.emplace(layer, input, forward, out); });
  return {*matmuls, y};
}

std::pair<Fp8LayerMatmuls, Tensor> values_forward(const Fp8Layer& layer,
                                                  const Fp8LayerMatmuls::Matrix& input,
                                                  const Fp8Forward& forward) {
  if (stores_result(layer)) {
    const auto [matmuls, stored] = stored_forward(layer, input, forward);
    const Tensor y = dequantize(stored, forward.dtype);
    amp::trace_cast(y, stored.data);
    return {matmuls, y};
  }
  const Tensor& rows = input.values.defined() ? input.values : input.quantized.data;
  const Tensor y =
      Tensor::empty({rows.size(0), layer.weight.size(0)}, forward.dtype, rows.device());
  return {Fp8LayerMatmuls(layer, input, forward, y), y};
}

Fp8LayerMatmuls::Fp8LayerMatmuls(const Fp8Layer& layer, const Matrix& input,
                                 const Fp8Forward& forward, const Result& y)
    : recipe_(*layer.recipe),
      state_(layer.state),
      activation_(layer.activation),
      forward_(forward),
      tf32_(amp::matmul_precision() == amp::MatmulPrecision::high) {
  const bool keeps_pre = forward.recording && layer.activation != Activation::none;
  const Tensor pre = keeps_pre ? Tensor::empty_like(y.values) : Tensor();
  const backend::Epilogue epilogue{
      .bias = layer.bias,
      .activation = layer.activation,
      .pre_activation = keeps_pre ? backend::batch_of_one(pre) : TensorView(),
      .tf32 = tf32_ && !recipe_.forward,
      .fast_accumulation = recipe_.fast_accumulation};
  Quantized weight;
  if (recipe_.forward) {
    weight = drops_weight_rows(layer)
                 ? state_->weight_rows_once(recipe_, layer.weight,
                                            requantizes(layer) || !forward.recording)
                 : state_->weight_rows(recipe_, layer.weight);
    const ScaledMatrix rows = rowwise(input.quantized), columns = transposed(rowwise(weight));
    if (y.quantized.data.present) {
      fp8_matmul(rows, columns, y.quantized, epilogue);
    } else {
      fp8_matmul(rows, columns, {y.values, false}, epilogue);
    }
  } else {
    fp8_matmul(as_type(input.values, forward.dtype),
               transposed(as_type(layer.weight, forward.dtype)), {y.values, false}, epilogue);
  }
  pre_activation_ = Saved(pre);
  if (forward.recording) save(layer, input, weight);
}

// Saves what each backward matmul reads and no more.
void Fp8LayerMatmuls::save(const Fp8Layer& layer, const Matrix& input, const Quantized& weight) {
  const Fp8Quantizer quantizer{recipe_, Fp8Role::activation, state_->input, false};
  if (requantizes(layer) || input.again) weight_ = Saved(layer.weight);
  if (layer.weight.requires_grad() && input.again) {
    wgrad_input_ = {{}, amp::DroppedQuantized(quantizer, input.quantized), input.again};
  } else if (layer.weight.requires_grad() && recipe_.wgrad) {
    wgrad_input_ = {without_rows(amp::scales_per_tensor(recipe_)
                                     ? input.quantized
                                     : quantizer.quantize(transposed(input.values)))};
  } else if (layer.weight.requires_grad()) {
    wgrad_values_ = Saved(converted(input.values, forward_.dtype));
  }
  if (forward_.input_needs_grad) save_for_dgrad(layer, weight);
}

void Fp8LayerMatmuls::save_for_dgrad(const Fp8Layer& layer, const Quantized& weight) {
  if (!recipe_.dgrad) {
    dgrad_weight_values_ = Saved(layer.weight);
  } else if (!weight.defined() || state_->keeps_weight_rows()) {
    dgrad_weight_ = {state_->weight_columns(recipe_, layer.weight)};
  } else if (requantizes(layer)) {
    const Fp8Quantizer quantizer{recipe_, Fp8Role::weight, state_->weight, false};
    dgrad_weight_ = {{},
                     amp::DroppedQuantized(quantizer, weight),
                     [values = weight_](const backend::QuantizedOutput& out) {
                       backend::of(values.get()).quantize.quantize(values, out);
                     }};
  } else {
    dgrad_weight_ = {without_rows(weight)};
  }
}

void Fp8LayerMatmuls::backward(const Tensor& dy, GradSlots parameters,
                               FunctionRef<GradSlot::Target()> dinput) const {
  backward(gradient(dy, parameters[1]), parameters[0], dinput);
}

void Fp8LayerMatmuls::backward(const Matrix& gradient, const GradSlot& weight,
                               FunctionRef<GradSlot::Target()> dinput) const {
  const GradSlot::Target target = dinput();
  if (target.buffer.defined()) dgrad(gradient, target);
  wgrad(gradient, weight);
}

Fp8Quantizer Fp8LayerMatmuls::gradient_quantizer() const {
  return {recipe_, Fp8Role::gradient, state_->gradient, true};
}

// The gradient as the backward matmuls read it; values that none reads are dropped.
Fp8LayerMatmuls::Matrix Fp8LayerMatmuls::quantized(const Tensor& gradient) const {
  const bool per_tensor = amp::scales_per_tensor(recipe_);
  Matrix result;
  if ((recipe_.dgrad && forward_.input_needs_grad) || (recipe_.wgrad && per_tensor))
    result.quantized = gradient_quantizer().quantize(gradient);
  if (!(recipe_.dgrad && recipe_.wgrad && per_tensor)) result.values = gradient;
  return result;
}

Fp8LayerMatmuls::Matrix Fp8LayerMatmuls::gradient(const Tensor& dy, const GradSlot& bias) const {
  if (activation_ == Activation::none) {
    add_reduced(bias, dy);
    return quantized(dy);
  }
  const Activation activation = activation_;
  if (!amp::can_fuse_quantize(recipe_) || bias.needs_grad() || dy.dtype() == DType::f64)
    return quantized(activation_gradient(activation, dy, pre_activation_, bias));
  const auto write = [&](const backend::QuantizedOutput& out) {
    backend::of(dy).quantize.quantize_activation_backward(activation, dy, pre_activation_, out);
  };
  return {gradient_quantizer().quantize_fused(dy.shape(), dy.device(), write)};
}

Fp8LayerMatmuls::Matrix Fp8LayerMatmuls::gradient(
    const Shape& shape, DType dtype, const GradSlot& bias, FunctionRef<void(const Tensor&)> write,
    FunctionRef<void(const backend::QuantizedOutput&)> write_quantized) const {
  const Device device = state_->gradient.scale.device();
  if (!bias.needs_grad())
    return {gradient_quantizer().quantize_fused(shape, device, write_quantized)};
  const Tensor values = Tensor::empty(shape, dtype, device);
  write(values);
  return gradient(values, bias);
}

void Fp8LayerMatmuls::dgrad(const Matrix& gradient, const GradSlot::Target& dinput) const {
  if (!recipe_.dgrad) {
    fp8_matmul(as_type(gradient.values, forward_.dtype),
               as_type(dgrad_weight_values_, forward_.dtype), dinput, {.tf32 = tf32_});
    return;
  }
  // Per-tensor weights are quantized as [out, in]; finer groups as [in, out], along the reduction
  // axis.
  fp8_matmul(rowwise(gradient.quantized),
             amp::scales_per_tensor(recipe_) ? columnwise(dgrad_weight_.get())
                                             : transposed(rowwise(dgrad_weight_.get())),
             dinput);
}

void Fp8LayerMatmuls::wgrad(const Matrix& gradient, const GradSlot& weight,
                            const Quantized& input) const {
  if (!weight.needs_grad()) return;
  const GradSlot::Target dweight = weight.target();
  if (!recipe_.wgrad) {
    fp8_matmul(transposed(as_type(gradient.values, forward_.dtype)),
               as_type(wgrad_values_, forward_.dtype), dweight, {.tf32 = tf32_});
  } else if (amp::scales_per_tensor(recipe_)) {
    if (wgrad_input_.again) weight_.get();  // fails if the weight, and with it the scale, changed
    const bool is_given = input.data.defined() || input.transposed.defined();
    fp8_matmul(transposed(columnwise(gradient.quantized)),
               columnwise(is_given ? input : wgrad_input_.get()), dweight);
  } else {
    const Fp8Quantizer quantizer{recipe_, Fp8Role::gradient, state_->gradient, false};
    fp8_matmul(rowwise(quantizer.quantize(transposed(gradient.values))),
               transposed(rowwise(wgrad_input_.kept)), dweight);
  }
}

}  // namespace binade::ops
