#include "binade/amp/recipe/layer_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"

namespace binade::amp {
namespace {

Tensor transposed_view(const Tensor& x) {
  return x.strided({x.size(1), x.size(0)}, {x.strides()[1], x.strides()[0]}, x.offset());
}

Quantizer weight_quantizer(const Recipe& recipe, LayerScales& scales, bool transposes) {
  return {recipe[Role::weight], scales[Role::weight], true, transposes};
}

}  // namespace

std::string buffer_name(Role role, std::string_view buffer) {
  return fmt::format("scales.{}.{}", name(role), buffer);
}

std::string current_buffer_name(const std::string& saved) {
  constexpr std::pair<std::string_view, Role> earlier[] = {{"fp8.input.", Role::input},
                                                           {"fp8.weight.", Role::weight},
                                                           {"fp8.gradient.", Role::gradient},
                                                           {"fp8.result.", Role::hidden}};
  for (const auto& [prefix, role] : earlier) {
    const size_t at = saved.rfind(prefix);
    if (at == std::string::npos || (at > 0 && saved[at - 1] != '.')) continue;
    const std::string_view buffer = std::string_view(saved).substr(at + prefix.size());
    const auto is_of_stream = [buffer](const StreamBuffer& one) { return one.name == buffer; };
    if (std::none_of(std::begin(stream_buffers), std::end(stream_buffers), is_of_stream)) continue;
    return saved.substr(0, at) + buffer_name(role, saved.substr(at + prefix.size()));
  }
  return saved;
}

void LayerScales::forget_weight() {
  rows_ = {};
  columns_ = {};
  trained_ = evaluated_ = false;
}

void LayerScales::restart() {
  seen_storage_ = nullptr;
  for (const Role role : layer_roles)
    streams_[role].is_prepared = streams_[role].has_no_amax = false;
  forget_weight();
}

void LayerScales::begin(const Recipe& recipe, const LayerFacts& facts, const Tensor& weight) {
  for (const Role role : layer_roles) {
    const std::optional<TensorRecipe>& tensor = recipe.tensors[role];
    const bool used =
        tensor && tensor->is_delayed() && (role != Role::hidden || facts.stores_result);
    ScaleStream& stream = streams_[role];
    if (!used || (stream.defined() && stream.history.numel() == tensor->delayed().history))
      continue;
    stream.create(tensor->delayed().history, weight.device());
    if (role != Role::hidden) seen_storage_ = nullptr;
  }
  flush(weight);
  if (seen_storage_ != weight.storage() || seen_version_ != weight.version() ||
      seen_recipe_ != recipe)
    forget_weight();
  seen_storage_ = weight.storage();
  seen_version_ = weight.version();
  seen_recipe_ = recipe;
  repeated_ = std::exchange(autograd::grad_enabled() ? trained_ : evaluated_, true);
}

void LayerScales::flush(const Tensor& weight) {
  const bool due = seen_storage_ == weight.storage() && seen_version_ != weight.version();
  if (!due) return;
  // Until the next forward there is nothing to roll again, however often the weight changes: a
  // layer that was moved out of its recipe keeps its state.
  restart();
  std::vector<backend::DelayedScale> rolled;
  for (const Role role : layer_roles) {
    const std::optional<TensorRecipe>& tensor = seen_recipe_.tensors[role];
    ScaleStream& stream = streams_[role];
    if (!stream.defined() || !tensor || !tensor->is_delayed()) continue;
    if (!stream.prepared.defined())
      stream.prepared = Tensor::empty({1}, DType::f32, weight.device());
    stream.is_prepared = stream.has_no_amax = true;
    rolled.push_back({.history = stream.history,
                      .pending = stream.pending,
                      .dropped = stream.dropped,
                      .scale = stream.scale,
                      .scale_inv = stream.scale_inv,
                      .max_value = tensor->format.max(),
                      .rule = delayed_rule(*tensor),
                      .prepared = stream.prepared});
  }
  if (!rolled.empty()) backend::of(weight).quantize.roll(rolled);
}

void LayerScales::before_save(const Tensor& weight) {
  flush(weight);
  for (const Role role : layer_roles) streams_[role].settle();
}

const Quantized& LayerScales::weight_rows(const Recipe& recipe, const LayerFacts& facts,
                                          const Tensor& weight) {
  if (!rows_.defined()) {
    const memory::CategoryGuard category(memory::Category::parameters);
    rows_ = weight_quantizer(recipe, *this, facts.transposes[Role::weight]).quantize(weight);
  }
  return rows_;
}

Quantized LayerScales::weight_rows_once(const Recipe& recipe, const LayerFacts& facts,
                                        const Tensor& weight, bool rows_only) {
  if (rows_.defined() || repeated_) return weight_rows(recipe, facts, weight);
  const bool transposes = facts.transposes[Role::weight] && !rows_only;
  return weight_quantizer(recipe, *this, transposes).quantize(weight);
}

const Quantized& LayerScales::weight_columns(const Recipe& recipe, const LayerFacts& facts,
                                             const Tensor& weight) {
  if (facts.serves_both_axes[Role::weight]) return weight_rows(recipe, facts, weight);
  if (!columns_.defined()) {
    const memory::CategoryGuard category(memory::Category::parameters);
    columns_ = weight_quantizer(recipe, *this, false).quantize(transposed_view(weight));
  }
  return columns_;
}

}  // namespace binade::amp
