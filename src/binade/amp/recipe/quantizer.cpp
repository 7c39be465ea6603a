#include "binade/amp/recipe/quantizer.h"

#include "binade/amp/trace.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"

namespace binade::amp {
namespace {

Tensor filled_state(const Shape& shape, double value, DType dtype, Device device) {
  const memory::CategoryGuard category(memory::Category::parameters);
  Tensor x = Tensor::empty(shape, dtype, device);
  backend::of(x).elementwise.fill(x, value);
  return x;
}

// Scales of 1 for a matrix without elements.
void fill_scales(const Quantized& q) {
  const auto& fill = backend::of(q.scale_inv).elementwise.fill;
  if (q.scale_inv.numel() > 0) fill(q.scale_inv, 1);
  if (q.outer_inv.defined()) fill(q.outer_inv, 1);
}

backend::GroupRule group_rule(ScaleRule rule) {
  switch (rule) {
    case ScaleRule::largest:
      return backend::GroupRule::largest;
    case ScaleRule::power_of_two:
      return backend::GroupRule::power_of_two;
    case ScaleRule::mx_floor:
      return backend::GroupRule::mx_floor;
    case ScaleRule::mx_ceil:
      return backend::GroupRule::mx_ceil;
    case ScaleRule::mx_round_up:
      return backend::GroupRule::mx_round_up;
    default:
      return backend::GroupRule::two_levels;
  }
}

// Whether a device without kernels of packed codes can quantize a tensor.
bool is_plain(const TensorRecipe& recipe, const QuantizerDraws& draws) {
  const bool has_type = stored_type(recipe.format) != DType::u8;
  return has_type && !recipe.stochastic && draws.hadamard == 0 &&
         recipe.rule != ScaleRule::mx_ceil && recipe.rule != ScaleRule::mx_round_up &&
         recipe.rule != ScaleRule::nvfp4;
}

}  // namespace

void ScaleStream::create(int length, Device device) {
  history = filled_state({length}, 0, DType::f32, device);
  scale = filled_state({1}, 1, DType::f32, device);
  scale_inv = filled_state({1}, 1, DType::f32, device);
  pending = filled_state({1}, 0, DType::f32, device);
  dropped = filled_state({1}, 0, DType::i32, device);
  // Allocated now, so that the first step holds as many blocks as later ones.
  prepared = Tensor::empty({1}, DType::f32, device);
  is_prepared = has_no_amax = false;
}

void ScaleStream::settle() {
  if (defined()) backend::of(pending).quantize.record_amax({}, pending, dropped);
}

backend::DelayedRule delayed_rule(const TensorRecipe& recipe) {
  return {.margin = recipe.delayed().margin,
          .most_recent = recipe.delayed().newest,
          .power_of_two = recipe.rule == ScaleRule::power_of_two};
}

Quantized Quantizer::allocate(const Shape& shape, Device device) const {
  const QuantizedLayout layout = recipe.layout();
  const DType dtype = stored_type(layout.format);
  Quantized result{.layout = layout,
                   .shape = shape,
                   .data = Tensor::empty(stored_shape(shape, layout.format), dtype, device),
                   .scale_inv = {}};
  if (transposes) result.transposed = Tensor::empty({shape[1], shape[0]}, dtype, device);
  return result;
}

Quantized Quantizer::quantize_fused(
    const Shape& shape, Device device,
    FunctionRef<void(const backend::QuantizedOutput&)> write) const {
  const auto& kernels = backend::of(device);
  Quantized result = allocate(shape, device);
  // A copy of scale_inv, because the stream's own changes at the next step.
  const bool prepared = std::exchange(stream.is_prepared, false);
  const Tensor scale_inv =
      prepared ? std::exchange(stream.prepared, {}) : Tensor::empty({1}, DType::f32, device);
  result.scale_inv = scale_inv.strided({1, 1}, {1, 1}, 0);
  if (!prepared)
    kernels.elementwise.copy(stream.scale_inv.strided({1, 1}, {1, 1}, 0), result.scale_inv);
  const bool is_first = records_amax && std::exchange(stream.has_no_amax, false);
  Tensor amax;
  if (is_first) {
    amax = stream.pending;
  } else if (records_amax) {
    amax = Tensor::empty({1}, DType::f32, device);
    kernels.elementwise.fill(amax, 0);
  }
  write(
      {.scale = stream.scale, .data = result.data, .transposed = result.transposed, .amax = amax});
  if (records_amax && !is_first) kernels.quantize.record_amax(amax, stream.pending, stream.dropped);
  return result;
}

Quantized Quantizer::quantize(const Tensor& x) const {
  const auto& kernels = backend::of(x);
  Quantized result;
  if (recipe.is_delayed()) {
    result = quantize_fused(x.shape(), x.device(), [&](const backend::QuantizedOutput& out) {
      kernels.quantize.quantize(x, out);
    });
  } else {
    result = allocate(x.shape(), x.device());
    result.scale_inv =
        Tensor::empty(scale_shape(x.shape(), recipe.group), stored_type(recipe.scale), x.device());
    if (result.layout.outer)
      result.outer_inv =
          Tensor::empty(scale_shape(x.shape(), *result.layout.outer), DType::f32, x.device());
    if (x.numel() == 0) {  // no kernel runs to write them
      fill_scales(result);
    } else if (!is_plain(recipe, draws)) {
      kernels.quantize.quantize_coded(x,
                                      {.rule = group_rule(recipe.rule),
                                       .eps = recipe.eps,
                                       .four_over_six = recipe.four_over_six,
                                       .hadamard = draws.hadamard,
                                       .signs = draws.signs,
                                       .stochastic = recipe.stochastic,
                                       .key = draws.key,
                                       .first = draws.first},
                                      backend::QuantizedView(result));
    } else if (recipe.rule == ScaleRule::mx_floor) {
      kernels.quantize.quantize_mx(x, backend::QuantizedView(result));
    } else {
      kernels.quantize.quantize_groups(
          x, {.group = recipe.group,
              .rule = {.eps = recipe.eps, .power_of_two = recipe.rule == ScaleRule::power_of_two},
              .data = result.data,
              .transposed = result.transposed,
              .scale_inv = result.scale_inv});
    }
  }
  trace_cast(x, result.data);
  return result;
}

Quantized DroppedQuantized::restored(
    FunctionRef<void(const backend::QuantizedOutput&)> write) const {
  Quantized result{
      .layout = {.format = format_of(dtype)}, .shape = shape, .data = {}, .scale_inv = scale_inv};
  const Device device = scale.device();
  if (backend::capabilities(device).needs_transposed_quantized) {
    result.transposed = Tensor::empty({shape[1], shape[0]}, dtype, device);
  } else {
    result.data = Tensor::empty(shape, dtype, device);
  }
  write({.scale = scale, .data = result.data, .transposed = result.transposed});
  return result;
}

}  // namespace binade::amp
