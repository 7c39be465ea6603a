#include "binade/amp/fp8_quantizer.h"

#include "binade/amp/trace.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/backend.h"
#include "binade/backend/fp8_scale.h"

namespace binade::amp {
namespace {

Tensor filled_state(const Shape& shape, double value, DType dtype, Device device) {
  const memory::CategoryGuard category(memory::Category::parameters);
  Tensor x = Tensor::empty(shape, dtype, device);
  backend::of(x).elementwise.fill(x, value);
  return x;
}

Tensor transposed(const Tensor& x) {
  return x.strided({x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, x.offset());
}

}  // namespace

ScaleGroup scale_group(const Fp8Recipe& recipe, Fp8Role role) {
  switch (recipe.scaling) {
    case Fp8Scaling::delayed:
    case Fp8Scaling::current:
      return {0, 0};
    case Fp8Scaling::row:
      return {1, 0};
    case Fp8Scaling::block:
      return role == Fp8Role::weight ? ScaleGroup{128, 128} : ScaleGroup{1, 128};
    case Fp8Scaling::mx:
      return {1, 32};
  }
  return {0, 0};
}

bool scales_per_tensor(const Fp8Recipe& recipe) {
  return recipe.scaling == Fp8Scaling::delayed || recipe.scaling == Fp8Scaling::current;
}

void Fp8Stream::create(int length, Device device) {
  history = filled_state({length}, 0, DType::f32, device);
  scale = filled_state({1}, 1, DType::f32, device);
  scale_inv = filled_state({1}, 1, DType::f32, device);
  pending = filled_state({1}, 0, DType::f32, device);
  dropped = filled_state({1}, 0, DType::i32, device);
  // Allocated now, so that the first step holds as many blocks as later ones.
  prepared = Tensor::empty({1}, DType::f32, device);
  is_prepared = has_no_amax = false;
}

void Fp8Stream::settle() {
  if (defined()) backend::of(pending).quantize.record_amax({}, pending, dropped);
}

// GPUs multiply FP8 matrices only if the reduction axis is contiguous. The forward reduces along
// rows; dgrad reduces along the weight's columns, wgrad along those of inputs and gradients.
bool Fp8Quantizer::writes_transposed(Device device) const {
  if (!device.is_cuda() || !scales_per_tensor(recipe) || rows_only) return false;
  return role == Fp8Role::weight ? recipe.dgrad : recipe.wgrad && backward_follows;
}

Quantized Fp8Quantizer::allocate(const Shape& shape, Device device) const {
  const DType type = fp8_type(recipe, role);
  Quantized result{Tensor::empty(shape, type, device), {}, scale_group(recipe, role)};
  if (writes_transposed(device))
    result.transposed = Tensor::empty({shape[1], shape[0]}, type, device);
  return result;
}

Quantized Fp8Quantizer::quantize_fused(
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
  const bool is_first = backward_follows && std::exchange(stream.has_no_amax, false);
  Tensor amax;
  if (is_first) {
    amax = stream.pending;
  } else if (backward_follows) {
    amax = Tensor::empty({1}, DType::f32, device);
    kernels.elementwise.fill(amax, 0);
  }
  write(
      {.scale = stream.scale, .data = result.data, .transposed = result.transposed, .amax = amax});
  if (backward_follows && !is_first)
    kernels.quantize.record_amax(amax, stream.pending, stream.dropped);
  return result;
}

Quantized Fp8Quantizer::quantize(const Tensor& x) const {
  const auto& kernels = backend::of(x).quantize;
  Quantized result;
  if (recipe.scaling == Fp8Scaling::delayed) {
    result = quantize_fused(x.shape(), x.device(),
                            [&](const backend::QuantizedOutput& out) { kernels.quantize(x, out); });
  } else {
    const bool mx = recipe.scaling == Fp8Scaling::mx;
    result = allocate(x.shape(), x.device());
    result.scale_inv = Tensor::empty(scale_shape(x.shape(), result.group),
                                     mx ? DType::u8 : DType::f32, x.device());
    if (mx) {
      kernels.quantize_mx(x, result.data, result.scale_inv);
    } else {
      kernels.quantize_groups(
          x, {.group = result.group,
              .rule = {.eps = recipe.eps,
                       .power_of_two = recipe.power_of_two || recipe.scaling == Fp8Scaling::block},
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
  Quantized result{{}, scale_inv, {}};
  const Device device = scale.device();
  if (device.is_cuda()) {
    result.transposed = Tensor::empty({shape[1], shape[0]}, dtype, device);
  } else {
    result.data = Tensor::empty(shape, dtype, device);
  }
  write({.scale = scale, .data = result.data, .transposed = result.transposed});
  return result;
}

bool can_fuse_quantize(const Fp8Recipe& recipe) {
  return recipe.scaling == Fp8Scaling::delayed && recipe.forward && recipe.dgrad && recipe.wgrad &&
         !tracing() && autograd::op_observer() == nullptr;
}

void Fp8LinearState::forget_weight() {
  rows_ = {};
  columns_ = {};
  trained_ = evaluated_ = false;
}

std::vector<std::pair<Fp8Stream*, Fp8Role>> Fp8LinearState::streams() {
  std::vector<std::pair<Fp8Stream*, Fp8Role>> all = {
      {&input, Fp8Role::activation}, {&weight, Fp8Role::weight}, {&gradient, Fp8Role::gradient}};
  if (result.defined()) all.emplace_back(&result, Fp8Role::activation);
  return all;
}

void Fp8LinearState::restart() {
  seen_storage_ = nullptr;
  for (const auto& [stream, role] : streams()) stream->is_prepared = stream->has_no_amax = false;
  forget_weight();
}

void Fp8LinearState::begin(const Fp8Recipe& recipe, const Tensor& weight_tensor,
                           bool stores_result) {
  const auto is_missing = [&recipe](const Fp8Stream& stream) {
    return recipe.scaling == Fp8Scaling::delayed &&
           (!stream.defined() || stream.history.numel() != recipe.history);
  };
  if (is_missing(input)) {
    for (Fp8Stream* stream : {&input, &weight, &gradient})
      stream->create(recipe.history, weight_tensor.device());
    seen_storage_ = nullptr;
  }
  if (stores_result && is_missing(result)) result.create(recipe.history, weight_tensor.device());
  flush(weight_tensor);
  if (seen_storage_ != weight_tensor.storage() || seen_version_ != weight_tensor.version() ||
      seen_recipe_ != recipe) {
    forget_weight();
  }
  seen_storage_ = weight_tensor.storage();
  seen_version_ = weight_tensor.version();
  seen_recipe_ = recipe;
  repeated_ = std::exchange(autograd::grad_enabled() ? trained_ : evaluated_, true);
}

void Fp8LinearState::flush(const Tensor& weight_tensor) {
  const bool due =
      seen_storage_ == weight_tensor.storage() && seen_version_ != weight_tensor.version();
  if (!due) return;
  // Until the next forward there is nothing to roll again, however often the weight changes: a
  // layer that was moved out of FP8 keeps its state.
  restart();
  if (seen_recipe_.scaling != Fp8Scaling::delayed) return;
  std::vector<backend::DelayedScale> rolled;
  for (const auto& [stream, role] : streams()) {
    if (!stream->prepared.defined())
      stream->prepared = Tensor::empty({1}, DType::f32, weight_tensor.device());
    stream->is_prepared = stream->has_no_amax = true;
    rolled.push_back({.history = stream->history,
                      .pending = stream->pending,
                      .dropped = stream->dropped,
                      .scale = stream->scale,
                      .scale_inv = stream->scale_inv,
                      .max_value = backend::fp8_max(fp8_type(seen_recipe_, role)),
                      .rule = {.margin = seen_recipe_.margin,
                               .most_recent = seen_recipe_.most_recent,
                               .power_of_two = stream == &result},
                      .prepared = stream->prepared});
  }
  backend::of(weight_tensor).quantize.roll(rolled);
}

void Fp8LinearState::before_save(const Tensor& weight_tensor) {
  flush(weight_tensor);
  for (const auto& [stream, role] : streams()) stream->settle();
}

const Quantized& Fp8LinearState::weight_rows(const Fp8Recipe& recipe, const Tensor& weight_tensor) {
  if (!rows_.defined()) {
    const memory::CategoryGuard category(memory::Category::parameters);
    const Fp8Quantizer quantizer{recipe, Fp8Role::weight, weight, true};
    rows_ = quantizer.quantize(weight_tensor);
  }
  return rows_;
}

Quantized Fp8LinearState::weight_rows_once(const Fp8Recipe& recipe, const Tensor& weight_tensor,
                                           bool rows_only) {
  if (rows_.defined() || repeated_) return weight_rows(recipe, weight_tensor);
  const Fp8Quantizer quantizer{recipe, Fp8Role::weight, weight, true, rows_only};
  return quantizer.quantize(weight_tensor);
}

const Quantized& Fp8LinearState::weight_columns(const Fp8Recipe& recipe,
                                                const Tensor& weight_tensor) {
  if (scales_per_tensor(recipe)) return weight_rows(recipe, weight_tensor);
  if (!columns_.defined()) {
    const memory::CategoryGuard category(memory::Category::parameters);
    const Fp8Quantizer quantizer{recipe, Fp8Role::weight, weight, true};
    columns_ = quantizer.quantize(transposed(weight_tensor));
  }
  return columns_;
}

}  // namespace binade::amp
