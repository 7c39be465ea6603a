#include "binade/amp/fp8.h"

#include <algorithm>

#include "binade/amp/trace.h"
#include "binade/autograd/module_path.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/backend.h"
#include "binade/formats/format.h"

namespace binade::amp {
namespace {

constexpr std::string_view scaling_names[] = {"delayed", "current", "row", "block", "mx"};

std::shared_ptr<const Fp8State>& thread_state() {
  thread_local std::shared_ptr<const Fp8State> state = std::make_shared<Fp8State>();
  return state;
}

bool at_or_below(std::string_view path, std::string_view module) {
  return path == module ||
         (path.starts_with(module) && path.size() > module.size() && path[module.size()] == '.');
}

Tensor filled(const Shape& shape, double value, DType dtype, Device device) {
  const memory::CategoryGuard category(memory::Category::parameters);
  Tensor x = Tensor::empty(shape, dtype, device);
  backend::of(x).elementwise.fill(x, value);
  return x;
}

double max_of(DType fp8) {
  return fp8 == DType::e4m3 ? formats::spec::e4m3.max() : formats::spec::e5m2.max();
}

bool per_tensor(const Fp8Recipe& recipe) {
  return recipe.scaling == Fp8Scaling::delayed || recipe.scaling == Fp8Scaling::current;
}

Tensor transposed(const Tensor& x) {
  return x.strided({x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, x.offset());
}

// GPUs multiply FP8 matrices that lie along the summed axis alone. The forward sums along rows; the
// weight's columns are summed by dgrad, those of inputs and gradients by wgrad.
bool transposed_too(const Fp8Recipe& recipe, Fp8Role role, Device device, bool gradients_follow) {
  if (!device.is_cuda() || !per_tensor(recipe)) return false;
  return role == Fp8Role::weight ? recipe.dgrad : recipe.wgrad && gradients_follow;
}

// Room for the codes of a matrix, without their scales.
Quantized empty_codes(const Fp8Recipe& recipe, Fp8Role role, const Shape& shape, Device device,
                      bool gradients_follow) {
  const DType type = fp8_type(recipe, role);
  Quantized result{Tensor::empty(shape, type, device), {}, scale_group(recipe, role)};
  if (transposed_too(recipe, role, device, gradients_follow))
    result.transposed = Tensor::empty({shape[1], shape[0]}, type, device);
  return result;
}

}  // namespace

void Fp8Recipe::check() const {
  const auto refuse = [](const char* argument, const char* expected, double found) {
    fail("Fp8Recipe", {.argument = argument, .expected = expected, .found = std::to_string(found)});
  };
  if (history < 1 || history > 65536) refuse("history", "1 to 65536", history);
  if (margin < -64 || margin > 64) refuse("margin", "-64 to 64", margin);
  if (!(eps >= 0)) refuse("eps", "at least 0", eps);
  if (skip_first < 0 || skip_last < 0)
    refuse("skip_first, skip_last", "at least 0",
           static_cast<double>(std::min(skip_first, skip_last)));
}

std::string_view name(Fp8Scaling scaling) { return scaling_names[static_cast<size_t>(scaling)]; }

Fp8Scaling parse_fp8_scaling(std::string_view text) {
  const auto* found = std::find(std::begin(scaling_names), std::end(scaling_names), text);
  if (found == std::end(scaling_names)) {
    fail("Fp8Recipe", {.argument = "scaling",
                       .expected = "delayed, current, row, block or mx",
                       .found = "'" + std::string(text) + "'"});
  }
  return static_cast<Fp8Scaling>(found - std::begin(scaling_names));
}

const Fp8State& fp8_state() { return *thread_state(); }

Fp8Autocast::Fp8Autocast(const Fp8Recipe& recipe, bool enabled)
    : Fp8Autocast(Fp8State{enabled, recipe, {}}) {}

Fp8Autocast::Fp8Autocast(Fp8State state) : previous_(thread_state()) {
  state.recipe.check();
  for (const auto& [path, recipe] : state.overrides) recipe.check();
  thread_state() = std::make_shared<const Fp8State>(std::move(state));
}

Fp8Autocast::~Fp8Autocast() { thread_state() = previous_; }

const Fp8Recipe* fp8_recipe() {
  const Fp8State& state = fp8_state();
  if (!state.enabled) return nullptr;
  const std::string& path = autograd::module_path();
  const Fp8Recipe* recipe = &state.recipe;
  size_t longest = 0;
  for (const auto& [module, other] : state.overrides) {
    if (!at_or_below(path, module) || module.size() < longest) continue;
    recipe = &other;
    longest = module.size();
  }
  const bool excluded =
      std::any_of(recipe->exclude.begin(), recipe->exclude.end(),
                  [&](const std::string& module) { return at_or_below(path, module); });
  return excluded || !(recipe->forward || recipe->dgrad || recipe->wgrad) ? nullptr : recipe;
}

void Fp8Stream::create(int length, Device device) {
  history = filled({length}, 0, DType::f32, device);
  scale = filled({1}, 1, DType::f32, device);
  inverse = filled({1}, 1, DType::f32, device);
  pending = filled({1}, 0, DType::f32, device);
  dropped = filled({1}, 0, DType::i32, device);
}

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

DType fp8_type(const Fp8Recipe& recipe, Fp8Role role) {
  return recipe.format == Fp8Format::hybrid && role == Fp8Role::gradient ? DType::e5m2
                                                                         : DType::e4m3;
}

Quantized quantize_fused(const Fp8Recipe& recipe, Fp8Role role, const Shape& shape, Device device,
                         Fp8Stream& stream, bool record,
                         FunctionRef<void(const backend::Codes&)> write) {
  const auto& kernels = backend::of(device);
  Quantized result = empty_codes(recipe, role, shape, device, record);
  // The scale is copied: it stays with this data when the stream's moves on.
  result.inverse_scale = Tensor::empty({1, 1}, DType::f32, device);
  kernels.elementwise.copy(stream.inverse.strided({1, 1}, {1, 1}, 0), result.inverse_scale);
  Tensor amax;
  if (record) {
    amax = Tensor::empty({1}, DType::f32, device);
    kernels.elementwise.fill(amax, 0);
  }
  write({stream.scale, result.data, result.transposed, amax});
  if (record) kernels.quantize.record_amax(amax, stream.pending, stream.dropped);
  return result;
}

bool can_fuse_quantize(const Fp8Recipe& recipe) {
  return recipe.scaling == Fp8Scaling::delayed && recipe.forward && recipe.dgrad && recipe.wgrad &&
         !tracing() && autograd::op_observer() == nullptr;
}

Quantized quantize_by(const Fp8Recipe& recipe, Fp8Role role, const Tensor& x, Fp8Stream& stream,
                      bool record) {
  const auto& kernels = backend::of(x).quantize;
  Quantized result;
  if (recipe.scaling == Fp8Scaling::delayed) {
    result = quantize_fused(recipe, role, x.shape(), x.device(), stream, record,
                            [&](const backend::Codes& codes) { kernels.quantize(x, codes); });
  } else if (recipe.scaling == Fp8Scaling::mx) {
    result = empty_codes(recipe, role, x.shape(), x.device(), record);
    result.inverse_scale =
        Tensor::empty(scale_shape(x.shape(), result.group), DType::u8, x.device());
    kernels.quantize_mx(x, result.data, result.inverse_scale);
  } else {
    const bool power_of_two = recipe.power_of_two || recipe.scaling == Fp8Scaling::block;
    result = empty_codes(recipe, role, x.shape(), x.device(), record);
    result.inverse_scale =
        Tensor::empty(scale_shape(x.shape(), result.group), DType::f32, x.device());
    kernels.quantize_groups(x, result.group, {recipe.eps, power_of_two}, result.data,
                            result.transposed, result.inverse_scale);
  }
  trace_cast(x, result.data);
  return result;
}

void Fp8Linear::forget_weight() {
  rows_ = {};
  columns_ = {};
}

void Fp8Linear::begin(const Fp8Recipe& recipe, const Tensor& weight_tensor) {
  if (recipe.scaling == Fp8Scaling::delayed &&
      (!input.defined() || input.history.numel() != recipe.history)) {
    for (Fp8Stream* stream : {&input, &weight, &gradient})
      stream->create(recipe.history, weight_tensor.device());
    seen_storage_ = nullptr;
  }
  flush(weight_tensor);
  if (seen_storage_ != weight_tensor.storage() || seen_version_ != weight_tensor.version() ||
      seen_recipe_.scaling != recipe.scaling || seen_recipe_.dgrad != recipe.dgrad) {
    forget_weight();
  }
  seen_storage_ = weight_tensor.storage();
  seen_version_ = weight_tensor.version();
  seen_recipe_ = recipe;
}

void Fp8Linear::flush(const Tensor& weight_tensor) {
  const bool due =
      seen_storage_ == weight_tensor.storage() && seen_version_ != weight_tensor.version();
  if (!due) return;
  seen_version_ = weight_tensor.version();
  forget_weight();
  if (seen_recipe_.scaling != Fp8Scaling::delayed) return;
  const std::pair<Fp8Stream*, Fp8Role> streams[] = {
      {&input, Fp8Role::activation}, {&weight, Fp8Role::weight}, {&gradient, Fp8Role::gradient}};
  for (const auto& [stream, role] : streams) {
    backend::of(weight_tensor)
        .quantize.roll(stream->history, stream->pending, max_of(fp8_type(seen_recipe_, role)),
                       {seen_recipe_.margin, seen_recipe_.most_recent}, stream->scale,
                       stream->inverse);
  }
}

const Quantized& Fp8Linear::weight_rows(const Fp8Recipe& recipe, const Tensor& weight_tensor) {
  if (!rows_.defined()) rows_ = quantize_by(recipe, Fp8Role::weight, weight_tensor, weight, true);
  return rows_;
}

const Quantized& Fp8Linear::weight_columns(const Fp8Recipe& recipe, const Tensor& weight_tensor) {
  if (per_tensor(recipe)) return weight_rows(recipe, weight_tensor);
  if (!columns_.defined())
    columns_ = quantize_by(recipe, Fp8Role::weight, transposed(weight_tensor), weight, true);
  return columns_;
}

}  // namespace binade::amp
