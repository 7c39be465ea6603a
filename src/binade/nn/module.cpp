#include "binade/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <typeinfo>

#include "binade/amp/recipe/layer_scales.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/text.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/unary.h"

namespace binade::nn {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// Gives all handles to a tensor of a module other values.
void replace(const Tensor& tensor, const Tensor& values) {
  if (!values.same_as(tensor)) tensor.set_data(values.detach());
}

}  // namespace

const Tensor* NamedTensors::find(const std::string& key) const {
  for (const NamedTensor& one : *this) {
    if (one.first == key) return &one.second;
  }
  return nullptr;
}

const Tensor& NamedTensors::operator[](const std::string& key) const {
  if (const Tensor* found = find(key)) return *found;
  std::string known;
  for (const NamedTensor& one : *this) known += (known.empty() ? "" : ", ") + one.first;
  fail("NamedTensors", {.argument = "key", .expected = known, .found = key});
}

template <class M, class F>
void Module::visit(M& module, const std::string& prefix, F&& f) {
  f(prefix, module);
  for (const auto& [name, child] : module.children_) visit<M>(*child, joined(prefix, name), f);
}

std::vector<std::string> NamedTensors::keys() const {
  std::vector<std::string> result;
  for (const NamedTensor& one : *this) result.push_back(one.first);
  return result;
}

NamedTensors Module::named_parameters(bool recurse) const {
  NamedTensors result;
  const auto collect = [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : module.parameters_) {
      if (tensor->defined()) result.emplace_back(joined(prefix, name), *tensor);
    }
  };
  if (recurse)
    visit(*this, "", collect);
  else
    collect("", *this);
  return result;
}

NamedTensors Module::named_buffers() const {
  NamedTensors result;
  visit(*this, "", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : module.buffers_) {
      if (tensor->defined()) result.emplace_back(joined(prefix, name), *tensor);
    }
  });
  return result;
}

std::vector<NamedModule> Module::named_children() const {
  std::vector<NamedModule> result;
  for (const auto& [name, child] : children_) result.emplace_back(name, child);
  return result;
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> result;
  visit(*this, "",
        [&](const std::string& prefix, Module& module) { result.emplace_back(prefix, &module); });
  return result;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (const auto& [name, parameter] : named_parameters()) result.push_back(parameter);
  return result;
}

std::vector<Tensor> Module::buffers() const {
  std::vector<Tensor> result;
  for (const auto& [name, buffer] : named_buffers()) result.push_back(buffer);
  return result;
}

std::vector<Module*> Module::children() const {
  std::vector<Module*> result;
  for (const auto& [name, child] : children_) result.push_back(child);
  return result;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> result;
  for (const auto& [name, module] : named_modules()) result.push_back(module);
  return result;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  visit(*this, "",
        [&](const std::string&, const Module& module) { count += module.block_weight_count(); });
  return count;
}

void Module::train(bool training) {
  for (const auto& [name, module] : named_modules()) module->training_ = training;
}

void Module::to(Device device) {
  const memory::CategoryGuard category(memory::Category::parameters);
  const NoGrad no_grad;
  for (const auto& [path, module] : named_modules()) {
    for (const auto& [name, tensor] : module->parameters_) {
      if (tensor->defined()) replace(*tensor, binade::to(*tensor, device));
    }
    for (const auto& [name, tensor] : module->buffers_) {
      if (tensor->defined()) replace(*tensor, binade::to(*tensor, device));
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
      if (tensor->defined()) replace(*tensor, cast(*tensor, dtype));
    }
  }
}

void Module::to(Device device, DType dtype) {
  to(device);
  to(dtype);
}

void Module::zero_grad(bool set_to_none) {
  if (!set_to_none) {
    for (const Tensor& one : parameters()) {
      if (one.grad().defined()) one.grad().zero_();
    }
    return;
  }
  for (const Tensor& parameter : parameters()) parameter.zero_grad();
}

StateDict Module::state_dict() {
  for (const auto& [path, module] : named_modules()) module->before_save();
  StateDict state;
  for (const auto& [name, tensor] : named_parameters()) state[name] = tensor.detach();
  for (const auto& [name, tensor] : named_buffers()) state[name] = tensor;
  return state;
}

void Module::load_state_dict(const StateDict& given, bool strict) {
  StateDict state;
  for (const auto& [name, tensor] : given) state[amp::current_buffer_name(name)] = tensor;
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

std::string Module::description() const {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? readable.get() : typeid(*this).name();
  // Without namespaces, but keeping those of template arguments.
  const size_t colons = name.rfind("::", name.find('<'));
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  const auto print = [&out](const auto& self, const Module& one, const std::string& name,
                            const std::string& indent) -> void {
    out << indent << (name.empty() ? "" : name + ": ") << one.description();
    if (const int64_t count = one.parameter_count(); count > 0)
      out << ", " << grouped(count) << (count == 1 ? " parameter" : " parameters");
    out << "\n";
    for (const auto& [child_name, child] : one.children_)
      self(self, *child, child_name, indent + "  ");
  };
  print(print, module, "", "");
  return out;
}

void HookHandle::remove() {
  if (remove_) remove_();
  remove_ = nullptr;
}

struct Layer::Hooks {
  template <class F>
  using List = std::map<uint64_t, F>;  // by the order of registration

  uint64_t next = 0;
  List<ForwardPreHook> before;
  List<ForwardHook> after;
};

Layer::Hooks& Layer::hooks() {
  if (!hooks_) hooks_ = std::make_shared<Hooks>();
  return *hooks_;
}

HookHandle Layer::register_forward_pre_hook(ForwardPreHook hook) {
  const uint64_t id = hooks().next++;
  hooks_->before[id] = std::move(hook);
  return HookHandle([id, all = std::weak_ptr(hooks_)] {
    if (const auto hooks = all.lock()) hooks->before.erase(id);
  });
}

HookHandle Layer::register_forward_hook(ForwardHook hook) {
  const uint64_t id = hooks().next++;
  hooks_->after[id] = std::move(hook);
  return HookHandle([id, all = std::weak_ptr(hooks_)] {
    if (const auto hooks = all.lock()) hooks->after.erase(id);
  });
}

Tensor Layer::with_hooks(const Tensor& x) {
  // Copies, because a hook may remove itself.
  const auto before = hooks_->before;
  Tensor input = x;
  for (const auto& [id, hook] : before) {
    if (const Tensor changed = hook(*this, input); changed.defined()) input = changed;
  }
  Tensor output = forward(input);
  const auto after = hooks_->after;
  for (const auto& [id, hook] : after) {
    if (const Tensor changed = hook(*this, input, output); changed.defined()) output = changed;
  }
  return output;
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

Tensor Module::register_parameter(std::string name, Tensor parameter, bool requires_grad) {
  Tensor& kept = registered_.emplace_back(std::move(parameter));
  if (kept.defined()) kept.set_requires_grad(requires_grad);
  parameters_.emplace_back(std::move(name), &kept);
  return kept;
}

Tensor Module::register_buffer(std::string name, Tensor buffer) {
  Tensor& kept = registered_.emplace_back(std::move(buffer));
  add_buffer(std::move(name), kept);
  return kept;
}

void Module::add_owned_child(std::string name, std::shared_ptr<Module> child) {
  if (child == nullptr) {
    fail("register_module", {.argument = name, .expected = "a module", .found = "none"});
  }
  add_child(std::move(name), *child);
  owned_.push_back(std::move(child));
}

void Module::replace_child(const std::string& name, std::shared_ptr<Module> child) {
  const auto found = std::find_if(children_.begin(), children_.end(),
                                  [&](const auto& one) { return one.first == name; });
  if (found == children_.end()) {
    std::string known;
    for (const auto& [one, module] : children_) known += (known.empty() ? "" : ", ") + one;
    fail("replace_module", {.argument = "name", .expected = "one of " + known, .found = name});
  }
  if (child == nullptr) {
    children_.erase(found);
    return;
  }
  child->name_ = name;
  found->second = child.get();
  owned_.push_back(std::move(child));
}

}  // namespace binade::nn
