#include "binade/io/huggingface_parts.h"

#include <fmt/format.h>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/huggingface_config.h"
#include "binade/ops/shape/shape.h"

namespace binade::io {
namespace {

Part part_of(const TensorFact& fact, const nn::LanguageModelConfig& config) {
  const int64_t q = config.heads * config.head_width(),
                kv = (config.kv_heads == 0 ? config.heads : config.kv_heads) * config.head_width();
  switch (fact.rows) {
    case Rows::all:
      return {{}, {}, 0, 0, fact.transposed};
    case Rows::q:
      return {{}, {}, 0, q};
    case Rows::k:
      return {{}, {}, q, kv};
    case Rows::v:
      return {{}, {}, q + kv, kv};
    case Rows::gate:
      return {{}, {}, 0, config.hidden};
    case Rows::up:
      return {{}, {}, config.hidden, config.hidden};
    case Rows::by_head:
      return {{}, {}, 0, 0, false, config.heads};
  }
  fail("huggingface", {.argument = std::string(fact.file), .expected = "rows", .found = "none"});
}

// Weights that linear layers keep in blocks, by their shapes alone.
void add_stand_ins(const nn::Module& module, const std::string& path, StateDict& parameters) {
  for (const nn::Module* child : module.children()) {
    const std::string name = path + child->name();
    const auto* linear = dynamic_cast<const nn::Linear*>(child);
    if (linear != nullptr && !linear->weight.defined())
      parameters[name + ".weight"] =
          Tensor::empty({1}, DType::f32, Device::meta()).strided(linear->weight_shape(), {0, 0}, 0);
    add_stand_ins(*child, name + ".", parameters);
  }
}

}  // namespace

std::vector<Part> parts_of(const nn::LanguageModelConfig& config, const StateDict& parameters) {
  const Family& family = family_of(config);
  std::vector<Part> parts;
  const auto add = [&](const TensorFact& fact, const std::string& layer, const std::string& block) {
    for (const char* suffix : {".weight", ".bias"}) {
      Part part = part_of(fact, config);
      part.kind = fact.rows;
      part.file_name = fmt::format("{}{}{}{}", family.prefix, layer, fact.file, suffix);
      part.parameter = fmt::format("{}{}{}", block, fact.parameter, suffix);
      part.transposed &= suffix == std::string_view(".weight");
      if (parameters.contains(part.parameter)) parts.push_back(part);
    }
  };
  for (const TensorFact& fact : family.tensors) add(fact, "", "");
  for (int64_t i = 0; i < config.layers; ++i) {
    for (const TensorFact& fact : family.layer_tensors)
      add(fact, fmt::format("{}{}.", family.layer, i), fmt::format("blocks.{}.", i));
  }
  if (!config.tied_head) parts.push_back({std::string(family.head), "head"});
  return parts;
}

StateDict parameters_of(const nn::LanguageModel& model) {
  StateDict parameters;
  for (const auto& [name, parameter] : model.named_parameters()) {
    parameters[name] = parameter.detach();
  }
  add_stand_ins(model, "", parameters);
  return parameters;
}

Tensor view_of(const StateDict& parameters, const Part& part) {
  const NoGrad no_grad;
  Tensor view = parameters.at(part.parameter);
  if (part.rows > 0) view = slice(view, 0, part.begin, part.begin + part.rows);
  if (part.heads > 0) {
    const int64_t rest = view.rank() == 2 ? view.size(1) : 1;
    const Shape shape{3, part.heads, view.size(0) / (3 * part.heads), rest};
    return transpose(reshape(view, shape), 0, 1);
  }
  return part.transposed ? transpose(view, 0, 1) : view;
}

Shape file_shape(const StateDict& parameters, const Part& part) {
  return part.heads > 0 ? parameters.at(part.parameter).shape() : view_of(parameters, part).shape();
}

}  // namespace binade::io
