#include "binade/ops/quantized/layer.h"

#include <optional>

#include "binade/amp/trace.h"
#include "binade/autograd/op_observer.h"
#include "binade/ops/common.h"
#include "binade/ops/quantized/matmul.h"
#include "binade/ops/quantized/quantize.h"

namespace binade {

QuantizedLayer with_facts(QuantizedLayer layer, amp::LayerUse use) {
  use.device = layer.weight.device();
  use.feeds_swiglu &= layer.activation == Activation::none;
  layer.facts = amp::facts_of(*layer.recipe, use);
  return layer;
}

}  // namespace binade

namespace binade::ops {
namespace {

using amp::Quantizer;
using amp::Role;

// Elements of one layer's tensors draw from 2^56 numbers each.
enum class Drawing : uint64_t { signs, input, input_columns, gradient, gradient_columns };
constexpr uint64_t first_draw(Drawing drawing) { return static_cast<uint64_t>(drawing) << 56; }

// Transformer Engine's, for runs of 16; longer ones repeat them.
constexpr uint64_t fixed_signs = 0xD7E8D7E8D7E8D7E8;

uint64_t signs_of(const amp::Recipe& recipe, random::Key key) {
  if (!recipe.random_signs) return fixed_signs;
  const auto word = [key](uint64_t index) {
    return uint64_t{random::bits(key.seed, key.stream, first_draw(Drawing::signs) + index)};
  };
  return word(0) | word(1) << 32;
}

ScaledMatrix as_type(const Tensor& values, DType dtype) { return {converted(values, dtype)}; }

}  // namespace

bool may_fuse(const amp::LayerFacts& facts) {
  return facts.can_fuse && !amp::tracing() && autograd::op_observer() == nullptr;
}

Quantizer input_quantizer(const QuantizedLayer& layer, const LayerForward& forward) {
  return {(*layer.recipe)[Role::input],
          (*layer.scales)[Role::input],
          forward.records_amax,
          forward.records_amax && layer.facts.transposes[Role::input],
          {.key = forward.key, .first = first_draw(Drawing::input)}};
}

random::Key rounding_key(const QuantizedLayer& layer) {
  return layer.recipe->is_random() ? random::next_key() : random::Key{};
}

void begin(const QuantizedLayer& layer) {
  layer.scales->begin(*layer.recipe, layer.facts, layer.weight);
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

LayerMatmuls::Matrix quantized_input(const QuantizedLayer& layer, const LayerForward& forward,
                                     const Tensor& x, const Tensor& values) {
  LayerMatmuls::Matrix input{.quantized = {}, .values = values};
  if (forward.recording && layer.facts.requantizes && is_kept(x)) {
    input.again = [saved = Saved(values)](const backend::QuantizedOutput& out) {
      backend::of(saved.get()).quantize.quantize(saved, out);
    };
  }
  Quantizer quantizer = input_quantizer(layer, forward);
  quantizer.transposes &= !input.again;
  input.quantized = quantizer.quantize(values);
  return input;
}

std::pair<LayerMatmuls, Quantized> stored_forward(const QuantizedLayer& layer,
                                                  const LayerMatmuls::Matrix& input,
                                                  const LayerForward& forward) {
  const Tensor& rows = input.quantized.data;
  const Quantizer quantizer{(*layer.recipe)[Role::hidden], (*layer.scales)[Role::hidden],
                            forward.records_amax, false};
  std::optional<LayerMatmuls> matmuls;
  const Quantized y = quantizer.quantize_fused(
      {rows.size(0), layer.weight.size(0)}, rows.device(),
      [&](const backend::QuantizedOutput& out) { matmuls.emplace(layer, input, forward, out); });
  return {*matmuls, y};
}

std::pair<LayerMatmuls, Tensor> values_forward(const QuantizedLayer& layer,
                                               const LayerMatmuls::Matrix& input,
                                               const LayerForward& forward) {
  if (layer.facts.stores_result) {
    const auto [matmuls, stored] = stored_forward(layer, input, forward);
    const Tensor y = dequantize(stored, forward.dtype);
    amp::trace_cast(y, stored.data);
    return {matmuls, y};
  }
  const Tensor& rows = input.values.defined() ? input.values : input.quantized.data;
  const Tensor y =
      Tensor::empty({rows.size(0), layer.weight.size(0)}, forward.dtype, rows.device());
  return {LayerMatmuls(layer, input, forward, y), y};
}

LayerMatmuls::LayerMatmuls(const QuantizedLayer& layer, const Matrix& input,
                           const LayerForward& forward, const Result& y)
    : recipe_(*layer.recipe),
      facts_(layer.facts),
      scales_(layer.scales),
      activation_(layer.activation),
      forward_(forward),
      tf32_(amp::matmul_precision() == amp::MatmulPrecision::high) {
  const bool keeps_pre = forward.recording && layer.activation != Activation::none;
  const Tensor pre = keeps_pre ? Tensor::empty_like(y.values) : Tensor();
  const backend::Epilogue epilogue{
      .bias = layer.bias,
      .activation = layer.activation,
      .pre_activation = keeps_pre ? backend::batch_of_one(pre) : TensorView(),
      .tf32 = tf32_ && !recipe_.matmuls.forward,
      .fast_accumulation = recipe_.fast_accumulation};
  Quantized weight;
  if (recipe_.matmuls.forward) {
    weight = facts_.drops_weight_rows
                 ? scales_->weight_rows_once(recipe_, facts_, layer.weight,
                                             facts_.requantizes || !forward.recording)
                 : scales_->weight_rows(recipe_, facts_, layer.weight);
    const ScaledMatrix rows = rowwise(input.quantized), columns = transposed(rowwise(weight));
    if (y.quantized.data.present) {
      quantized_matmul(rows, columns, y.quantized, epilogue);
    } else {
      quantized_matmul(rows, columns, {y.values, false}, epilogue);
    }
  } else {
    quantized_matmul(as_type(input.values, forward.dtype),
                     transposed(as_type(layer.weight, forward.dtype)), {y.values, false}, epilogue);
  }
  pre_activation_ = Saved(pre);
  if (forward.recording) save(layer, input, weight);
}

// Saves what each backward matmul reads and no more.
void LayerMatmuls::save(const QuantizedLayer& layer, const Matrix& input, const Quantized& weight) {
  amp::ScaleStream& stream = (*scales_)[Role::input];
  if (facts_.requantizes || input.again) weight_ = Saved(layer.weight);
  if (layer.weight.requires_grad() && input.again) {
    wgrad_input_ = {{}, amp::DroppedQuantized(stream, input.quantized), input.again};
  } else if (layer.weight.requires_grad() && recipe_.matmuls.wgrad) {
    wgrad_input_ = {
        without_rows(facts_.serves_both_axes[Role::input]
                         ? input.quantized
                         : column_quantizer(Role::input).quantize(transposed(input.values)))};
  } else if (layer.weight.requires_grad()) {
    wgrad_values_ = Saved(converted(input.values, forward_.dtype));
  }
  if (forward_.input_needs_grad) save_for_dgrad(layer, weight);
}

void LayerMatmuls::save_for_dgrad(const QuantizedLayer& layer, const Quantized& weight) {
  if (!recipe_.matmuls.dgrad) {
    dgrad_weight_values_ = Saved(layer.weight);
  } else if (!weight.defined() || scales_->keeps_weight_rows()) {
    dgrad_weight_ = {scales_->weight_columns(recipe_, facts_, layer.weight)};
  } else if (facts_.requantizes) {
    dgrad_weight_ = {{},
                     amp::DroppedQuantized((*scales_)[Role::weight], weight),
                     [values = weight_](const backend::QuantizedOutput& out) {
                       backend::of(values.get()).quantize.quantize(values, out);
                     }};
  } else {
    dgrad_weight_ = {without_rows(weight)};
  }
}

void LayerMatmuls::backward(const Tensor& dy, GradSlots parameters,
                            FunctionRef<GradSlot::Target()> dinput) const {
  backward(gradient(dy, parameters[1]), parameters[0], dinput);
}

void LayerMatmuls::backward(const Matrix& gradient, const GradSlot& weight,
                            FunctionRef<GradSlot::Target()> dinput) const {
  const GradSlot::Target target = dinput();
  if (target.buffer.defined()) dgrad(gradient, target);
  wgrad(gradient, weight);
}

Quantizer LayerMatmuls::gradient_quantizer() const {
  return {recipe_[Role::gradient],
          (*scales_)[Role::gradient],
          true,
          facts_.transposes[Role::gradient],
          {.key = forward_.key, .first = first_draw(Drawing::gradient)}};
}

Quantizer LayerMatmuls::column_quantizer(Role role) const {
  const Drawing drawing = role == Role::input ? Drawing::input_columns : Drawing::gradient_columns;
  return {recipe_[role],
          (*scales_)[role],
          false,
          false,
          {.key = forward_.key,
           .first = first_draw(drawing),
           .hadamard = recipe_.wgrad_hadamard,
           .signs = signs_of(recipe_, forward_.key)}};
}

// The gradient as the backward matmuls read it; values that none reads are dropped.
LayerMatmuls::Matrix LayerMatmuls::quantized(const Tensor& gradient) const {
  const auto [forward, dgrad, wgrad] = recipe_.matmuls;
  const bool serves_both_axes = facts_.serves_both_axes[Role::gradient];
  Matrix result;
  if ((dgrad && forward_.input_needs_grad) || (wgrad && serves_both_axes))
    result.quantized = gradient_quantizer().quantize(gradient);
  if (!(dgrad && wgrad && serves_both_axes)) result.values = gradient;
  return result;
}

LayerMatmuls::Matrix LayerMatmuls::gradient(const Tensor& dy, const GradSlot& bias) const {
  if (activation_ == Activation::none) {
    add_reduced(bias, dy);
    return quantized(dy);
  }
  const Activation activation = activation_;
  if (!may_fuse(facts_) || bias.needs_grad() || dy.dtype() == DType::f64)
    return quantized(activation_gradient(activation, dy, pre_activation_, bias));
  const auto write = [&](const backend::QuantizedOutput& out) {
    backend::of(dy).quantize.quantize_activation_backward(activation, dy, pre_activation_, out);
  };
  return {gradient_quantizer().quantize_fused(dy.shape(), dy.device(), write)};
}

LayerMatmuls::Matrix LayerMatmuls::gradient(
    const Shape& shape, DType dtype, const GradSlot& bias, FunctionRef<void(const Tensor&)> write,
    FunctionRef<void(const backend::QuantizedOutput&)> write_quantized) const {
  const Device device = (*scales_)[Role::gradient].scale.device();
  if (!bias.needs_grad())
    return {gradient_quantizer().quantize_fused(shape, device, write_quantized)};
  const Tensor values = Tensor::empty(shape, dtype, device);
  write(values);
  return gradient(values, bias);
}

void LayerMatmuls::dgrad(const Matrix& gradient, const GradSlot::Target& dinput) const {
  if (!recipe_.matmuls.dgrad) {
    quantized_matmul(as_type(gradient.values, forward_.dtype),
                     as_type(dgrad_weight_values_, forward_.dtype), dinput, {.tf32 = tf32_});
    return;
  }
  // Weights whose data serve both axes are quantized as [out, in], others as [in, out], along the
  // reduction axis.
  quantized_matmul(rowwise(gradient.quantized),
                   facts_.serves_both_axes[Role::weight] ? columnwise(dgrad_weight_.get())
                                                         : transposed(rowwise(dgrad_weight_.get())),
                   dinput);
}

void LayerMatmuls::wgrad(const Matrix& gradient, const GradSlot& weight,
                         const Quantized& input) const {
  if (!weight.needs_grad()) return;
  const GradSlot::Target dweight = weight.target();
  if (!recipe_.matmuls.wgrad) {
    quantized_matmul(transposed(as_type(gradient.values, forward_.dtype)),
                     as_type(wgrad_values_, forward_.dtype), dweight, {.tf32 = tf32_});
    return;
  }
  if (wgrad_input_.again) weight_.get();  // fails if the weight, and with it the scale, changed
  const bool is_given = input.data.defined() || input.transposed.defined();
  quantized_matmul(
      facts_.serves_both_axes[Role::gradient]
          ? transposed(columnwise(gradient.quantized))
          : rowwise(column_quantizer(Role::gradient).quantize(transposed(gradient.values))),
      facts_.serves_both_axes[Role::input] ? columnwise(is_given ? input : wgrad_input_.get())
                                           : transposed(rowwise(wgrad_input_.kept)),
      dweight);
}

}  // namespace binade::ops
