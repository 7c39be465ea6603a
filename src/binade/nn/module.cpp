#include "binade/nn/module.h"

#include "binade/autograd/grad_mode.h"
#include "binade/ops/copy.h"
#include "binade/ops/unary.h"

namespace binade::nn {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

void replace_parameter(Tensor& parameter, const Tensor& value) {
  const bool requires_grad = parameter.requires_grad();
  parameter = value.detach();
  parameter.set_requires_grad(requires_grad);
}

}  // namespace

template <class M, class F>
void Module::visit(M& module, const std::string& prefix, F&& f) {
  f(prefix, module);
  for (const auto& [name, child] : module.children_) visit<M>(*child, joined(prefix, name), f);
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Tensor>> result;
  visit(*this, "", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : module.parameters_) {
      if (tensor->defined()) result.emplace_back(joined(prefix, name), *tensor);
    }
  });
  return result;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> result;
  visit(*this, "", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : module.buffers_) {
      if (tensor->defined()) result.emplace_back(joined(prefix, name), *tensor);
    }
  });
  return result;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> result;
  visit(*this, "",
        [&](const std::string& prefix, Module& module) { result.emplace_back(prefix, &module); });
  return result;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (const auto& [name, parameter] : named_parameters()) result.push_back(parameter);
  return result;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

void Module::train(bool training) {
  for (const auto& [name, module] : named_modules()) module->training_ = training;
}

void Module::to(Device device) {
  const memory::CategoryGuard category(memory::Category::parameters);
  for (const auto& [path, module] : named_modules()) {
    for (const auto& [name, tensor] : module->parameters_) {
      if (tensor->defined()) replace_parameter(*tensor, binade::to(*tensor, device));
    }
    for (const auto& [name, tensor] : module->buffers_) {
      if (tensor->defined()) *tensor = binade::to(*tensor, device);
    }
  }
}

void Module::to(DType dtype) {
  if (!is_compute(dtype)) {
    fail("to", {.argument = "dtype",
                .expected = "f64, f32, f16 or bf16",
                .found = std::string(binade::name(dtype))});
  }
  const memory::CategoryGuard category(memory::Category::parameters);
  const NoGrad no_grad;
  for (const auto& [path, module] : named_modules()) {
    for (const auto& [name, tensor] : module->parameters_) {
      if (tensor->defined()) replace_parameter(*tensor, cast(*tensor, dtype));
    }
  }
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.zero_grad();
}

StateDict Module::state_dict() {
  for (const auto& [path, module] : named_modules()) module->before_save();
  StateDict state;
  for (const auto& [name, tensor] : named_parameters()) state[name] = tensor.detach();
  for (const auto& [name, tensor] : named_buffers()) state[name] = tensor;
  return state;
}

void Module::load_state_dict(const StateDict& state, bool strict) {
  for (const auto& [path, module] : named_modules())
    module->before_load(state, path.empty() ? "" : path + ".");
  const StateDict mine = state_dict();
  std::string problems;
  for (const auto& [name, tensor] : mine) {
    const auto found = state.find(name);
    if (found == state.end()) {
      if (strict) problems += "  missing: " + name + "\n";
    } else if (!found->second.defined()) {
      problems += "  " + name + ": expected " + to_string(tensor.shape()) + ", found no tensor\n";
    } else if (found->second.shape() != tensor.shape()) {
      problems += "  " + name + ": expected " + to_string(tensor.shape()) + ", found " +
                  describe(found->second) + "\n";
    }
  }
  for (const auto& [name, tensor] : state) {
    if (strict && !mine.contains(name)) problems += "  not in this model: " + name + "\n";
  }
  if (!problems.empty())
    fail("load_state_dict", {.argument = "state",
                             .expected = "the tensors of this module",
                             .found = "these differences",
                             .details = problems});
  const NoGrad no_grad;
  for (const auto& [name, tensor] : mine) {
    if (const auto found = state.find(name); found != state.end()) copy_(tensor, found->second);
  }
}

void Module::add_parameter(std::string name, Tensor& parameter) {
  if (parameter.defined()) parameter.set_requires_grad();
  parameters_.emplace_back(std::move(name), &parameter);
}

void Module::add_buffer(std::string name, Tensor& buffer) {
  buffers_.emplace_back(std::move(name), &buffer);
}

void Module::add_child(std::string name, Module& child) {
  child.name_ = name;
  children_.emplace_back(std::move(name), &child);
}

}  // namespace binade::nn
