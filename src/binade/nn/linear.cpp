#include "binade/nn/linear.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/execution.h"
#include "binade/nn/init.h"
#include "binade/nn/rounded_weight.h"
#include "binade/ops/common.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/index.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/quantized/linear.h"
#include "binade/ops/shape/shape.h"

namespace binade::nn {
namespace {

// What makes a model may hand parts of it to other threads.
constinit execution::Slot<bool> without_weights(execution::Belongs::to_work);

}  // namespace

WithoutWeights::WithoutWeights() : scope_(*without_weights, true) {}

Linear::Linear(const LinearConfig& config, Placement placement)
    : activation(config.activation),
      shape_{config.out, config.in},
      device_(placement.device),
      feeds_swiglu_(config.feeds_swiglu),
      scales_(std::make_shared<amp::LayerScales>()) {
  if (config.in < 1 || config.out < 1) {
    fail("Linear", {.argument = "in, out",
                    .expected = "at least 1",
                    .found = std::to_string(config.in) + ", " + std::to_string(config.out)});
  }
  const double bound = 1 / std::sqrt(static_cast<double>(config.in));
  // A weight of no data draws from its random stream, too.
  const Placement of_weight =
      *without_weights ? Placement{Device::meta(), placement.dtype} : placement;
  weight = config.deviation > 0 ? init::normal(shape_, config.deviation, of_weight)
                                : init::uniform(shape_, bound, of_weight);
  if (*without_weights) weight = {};
  if (config.bias) {
    bias = config.deviation > 0 ? init::constant({config.out}, 0, placement)
                                : init::uniform({config.out}, bound, placement);
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
  for (const amp::Role role : amp::layer_roles) {
    for (const auto& [name, tensor] : amp::stream_buffers)
      add_buffer(amp::buffer_name(role, name), (*scales_)[role].*tensor);
  }
}

std::string Linear::description() const {
  const Shape shape = weight_shape();
  return "Linear(" + std::to_string(shape[1]) + ", " + std::to_string(shape[0]) +
         (bias.defined() ? ")" : ", no bias)");
}

QuantizedLayer Linear::quantized(const amp::Recipe& recipe, Activation activated_by) const {
  return with_facts({.weight = weight,
                     .bias = bias,
                     .activation = activated_by,
                     .recipe = &recipe,
                     .scales = scales_},
                    {.recomputes_results = ops::recomputes_results(weight.device()),
                     .feeds_swiglu = feeds_swiglu_ && adapters_.empty()});
}

std::optional<QuantizedLayer> Linear::fused_consumer() const {
  const auto scope = enter();
  const amp::Recipe* recipe = amp::current_recipe();
  if (recipe == nullptr || has_adapters() || has_hooks() || blocks_ != nullptr) return std::nullopt;
  QuantizedLayer layer = quantized(*recipe, activation);
  if (!ops::may_fuse(layer.facts)) return std::nullopt;
  return layer;
}

void Linear::set_weight_format(const formats::WeightFormat* format, std::vector<WeightPart> parts) {
  if (format != nullptr && blocks_ != nullptr)
    fail("Linear", {.argument = "weight format " + std::string(format->name),
                    .expected = "a weight that is trained",
                    .found = "one in blocks"});
  if (format != nullptr && weight.size(1) % format->group_columns != 0)
    fail("Linear",
         {.argument = "weight format " + std::string(format->name),
          .expected = "inputs that are a multiple of " + std::to_string(format->group_columns),
          .found = describe(weight)});
  rounded_ =
      format == nullptr ? nullptr : std::make_shared<RoundedWeight>(*format, std::move(parts));
}

const formats::WeightFormat* Linear::weight_format() const {
  return rounded_ == nullptr ? nullptr : &rounded_->format();
}

void Linear::set_block_weight(std::shared_ptr<const BlockWeight> blocks) {
  if (blocks->shape != shape_ || rounded_ != nullptr)
    fail("Linear", {.argument = "blocks",
                    .expected = "those of a weight " + to_string(shape_) + " without a format",
                    .found = to_string(blocks->shape)});
  blocks_ = std::move(blocks);
  weight = {};
}

Tensor Linear::merged_weight() const {
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled_autocast());
  const Tensor merged = clone(cast(weight.detach(), DType::f32));
  for (const auto& [name, adapter] : adapters_) {
    const LoraConfig& config = adapter->config();
    const Tensor rows = slice(merged, 0, config.begin, config.begin + config.rows);
    copy_(rows, rows + matmul(adapter->b.detach(), adapter->a.detach()) * config.scale);
  }
  return merged;
}

Tensor Linear::computed_weight() {
  if (rounded_ == nullptr) return weight;
  if (adapters_.empty()) return (*rounded_)(weight);
  std::vector<Tensor> sources = {weight};
  for (const auto& [name, adapter] : adapters_)
    sources.insert(sources.end(), {adapter->a, adapter->b});
  return straight_through(rounded_->values(sources, [this] { return merged_weight(); }), weight);
}

Tensor Linear::base(const Tensor& x, Activation activated_by) {
  const amp::Recipe* recipe = amp::current_recipe();
  if (blocks_ != nullptr && recipe != nullptr)
    fail("Linear", {.argument = "recipe " + recipe->name,
                    .expected = "none beside a weight in blocks",
                    .found = "one"});
  if (blocks_ != nullptr) return activate(block_linear(x, blocks_, bias), activated_by);
  if (recipe == nullptr) return linear(x, computed_weight(), bias, activated_by);
  if (rounded_ != nullptr)
    fail("Linear",
         {.argument = "recipe " + recipe->name,
          .expected = "none beside the weight format " + std::string(rounded_->format().name),
          .found = "one"});
  return quantized_linear(x, quantized(*recipe, activated_by));
}

Tensor Linear::forward(const Tensor& x) {
  if (adapters_.empty()) return base(x, activation);
  return activate(adapted(base(x, Activation::none), x), activation);
}

std::pair<Tensor, Tensor> Linear::with_swiglu(const Tensor& x) {
  const bool is_plain = !has_hooks() && !has_adapters() && blocks_ == nullptr;
  if (!is_plain || activation != Activation::none) return {(*this)(x), {}};
  const auto scope = enter();
  if (amp::current_recipe() != nullptr) return {forward(x), {}};
  return linear_with_swiglu(x, computed_weight(), bias);
}

Tensor Linear::addition_of(LoraAdapter& adapter, const Tensor& x, DType dtype) const {
  if (rounded_ == nullptr) return cast(adapter(x), dtype);
  // y has the adapter in its weight, and so has y's gradient for x. Zeros give the adapter its own.
  const Tensor addition = adapter(x.detach());
  return cast(addition - addition.detach(), dtype);
}

Tensor Linear::adapted(const Tensor& y, const Tensor& x) {
  std::vector<Tensor> parts;  // of the channels, in order
  int64_t end = 0;
  const auto keep_until = [&](int64_t begin) {
    if (begin > end) parts.push_back(slice(y, -1, end, begin));
    end = begin;
  };
  for (const auto& [name, adapter] : adapters_) {
    const int64_t begin = adapter->config().begin, rows = adapter->config().rows;
    keep_until(begin);
    const Tensor part = rows == y.size(-1) ? y : slice(y, -1, begin, begin + rows);
    parts.push_back(part + addition_of(*adapter, x, y.dtype()));
    end = begin + rows;
  }
  keep_until(y.size(-1));
  return parts.size() == 1 ? parts[0] : cat(parts, -1);
}

LoraAdapter& Linear::add_adapter(const std::string& name, const LoraConfig& config) {
  const auto overlaps = [&config](const auto& other) {
    const LoraConfig& given = other.second->config();
    return given.begin < config.begin + config.rows && config.begin < given.begin + given.rows;
  };
  const Shape shape = weight_shape();
  if (config.in != shape[1] || config.begin < 0 || config.begin + config.rows > shape[0] ||
      std::any_of(adapters_.begin(), adapters_.end(), overlaps)) {
    fail("Linear",
         {.argument = "adapter " + name,
          .expected = "channels of " + (weight.defined() ? describe(weight) : to_string(shape)) +
                      " without an adapter",
          .found = std::to_string(config.rows) + " from " + std::to_string(config.begin) +
                   " on of " + std::to_string(config.in) + " inputs"});
  }
  auto adapter =
      std::make_unique<LoraAdapter>(config, weight.defined() ? weight.device() : device_);
  LoraAdapter& added = *adapter;
  add_child("lora." + name, added);
  const auto after = std::find_if(adapters_.begin(), adapters_.end(), [&](const auto& other) {
    return other.second->config().begin > config.begin;
  });
  adapters_.emplace(after, name, std::move(adapter));
  return added;
}

LoraAdapter* Linear::find_adapter(const std::string& name) const {
  for (const auto& [known, adapter] : adapters_) {
    if (known == name) return adapter.get();
  }
  return nullptr;
}

void Linear::before_save() {
  if (weight.defined()) scales_->before_save(weight);
}

void Linear::before_load(const StateDict& state, const std::string& prefix) {
  bool found = false;
  amp::RoleMap<amp::ScaleStream> loaded;
  for (const amp::Role role : amp::layer_roles) {
    const auto history = state.find(prefix + amp::buffer_name(role, "history"));
    if (history == state.end()) continue;
    loaded[role].create(static_cast<int>(history->second.numel()), weight.device());
    found = true;
  }
  if (!found) return;
  for (const amp::Role role : amp::layer_roles) (*scales_)[role] = loaded[role];
  scales_->restart();
}

Embedding::Embedding(const EmbeddingConfig& config, Placement placement) {
  if (config.count < 1 || config.width < 1) {
    fail("Embedding",
         {.argument = "count, width",
          .expected = "at least 1",
          .found = std::to_string(config.count) + ", " + std::to_string(config.width)});
  }
  weight = init::normal({config.count, config.width}, config.deviation, placement);
  add_parameter("weight", weight);
}

std::string Embedding::description() const {
  return "Embedding(" + std::to_string(weight.size(0)) + ", " + std::to_string(weight.size(1)) +
         ")";
}

Tensor Embedding::forward(const Tensor& index) { return embedding(weight, index); }

}  // namespace binade::nn
