#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "binade/torch/holder.h"

namespace binade::torch::nn {

template <class H>
concept Holder = requires(const H& holder) {
  holder.ptr();
  typename H::ContainedType;
};

// Any module that maps a tensor to one.
class AnyModule {
 public:
  AnyModule() = default;
  template <Holder H>
  AnyModule(const H& holder) : AnyModule(holder.ptr()) {}  // NOLINT: a module stands for itself
  template <std::derived_from<Module> M>
  AnyModule(std::shared_ptr<M> module)  // NOLINT
      : module_(module), forward_([m = module.get()](const Tensor& x) { return call(*m, x); }) {
    if (module == nullptr)
      fail("module", {.argument = "holder", .expected = "a module", .found = "an empty holder"});
  }

  // LibTorch's forward<Result>(): the result is a tensor.
  template <class Result = Tensor>
  Result forward(const Tensor& x) const {
    return forward_(x);
  }
  const std::shared_ptr<Module>& ptr() const { return module_; }
  bool is_empty() const { return module_ == nullptr; }

 private:
  template <class M>
  static Tensor call(M& module, const Tensor& x) {
    if constexpr (std::derived_from<M, binade::nn::Layer>) {
      return static_cast<binade::nn::Layer&>(module)(x);  // with its hooks
    } else {
      return module.forward(x);
    }
  }

  std::shared_ptr<Module> module_;
  std::function<Tensor(const Tensor&)> forward_;
};

// A module with its name: Sequential({{"fc", Linear(4, 2)}, {"act", ReLU()}}).
struct NamedAnyModule {
  template <class M>
  NamedAnyModule(std::string name, M&& module) : name(std::move(name)), module(module) {}

  std::string name;
  AnyModule module;
};

// A function as a module: Functional(torch::relu), Functional(F::elu, 0.5).
struct FunctionalImpl : binade::nn::Layer {
  template <class F, class... Args>
  requires std::invocable<F, const Tensor&, Args...>
  explicit FunctionalImpl(F function, Args... arguments)
      : function_([function, arguments...](const Tensor& x) { return function(x, arguments...); }) {
  }
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};
class Functional : public ModuleHolder<FunctionalImpl> {
 public:
  Functional(Tensor (*function)(const Tensor&))  // NOLINT: picks the overload of one tensor
      : ModuleHolder(std::make_shared<FunctionalImpl>(function)) {}
  template <class F, class... Args>
  requires std::invocable<F, const Tensor&, Args...>
  explicit Functional(F function, Args... arguments)
      : ModuleHolder(std::make_shared<FunctionalImpl>(std::move(function), arguments...)) {}
};

// Modules one after another, named "0", "1", ... or as given.
struct SequentialImpl : Module {
  SequentialImpl() = default;
  template <class First, class... Rest>
  requires std::constructible_from<AnyModule, const First&>
  explicit SequentialImpl(const First& first, const Rest&... rest) {
    push_back(first);
    (push_back(rest), ...);
  }
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
    for (const NamedAnyModule& one : modules) push_back(one.name, one.module);
  }

  template <class Result = Tensor>
  Result forward(const Tensor& x) {
    const auto scope = enter();
    Tensor y = x;
    for (const AnyModule& module : modules_) y = module.forward(y);
    return y;
  }
  void push_back(AnyModule module) { push_back(std::to_string(size()), std::move(module)); }
  void push_back(const std::string& name, AnyModule module) {
    register_module(name, module.ptr());
    modules_.push_back(std::move(module));
  }
  size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.empty(); }
  const std::shared_ptr<Module>& ptr(size_t i) const { return modules_.at(i).ptr(); }
  const std::shared_ptr<Module>& operator[](size_t i) const { return ptr(i); }
  template <class M>
  M& at(size_t i) const {
    return dynamic_cast<M&>(*ptr(i));
  }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }

 private:
  std::vector<AnyModule> modules_;
};
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  Sequential() : ModuleHolder(std::make_shared<SequentialImpl>()) {}
  Sequential(std::initializer_list<NamedAnyModule> modules)
      : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
  using ModuleHolder::ModuleHolder;
};

// Modules in a list; their order of calls is the program's.
struct ModuleListImpl : Module {
  ModuleListImpl() = default;
  template <class First, class... Rest>
  requires(Holder<First> && (Holder<Rest> && ...)) explicit ModuleListImpl(const First& first,
                                                                           const Rest&... rest) {
    push_back(first);
    (push_back(rest), ...);
  }

  template <Holder H>
  void push_back(const H& holder) {
    push_back(std::shared_ptr<Module>(holder.ptr()));
  }
  void push_back(std::shared_ptr<Module> module) {
    register_module(std::to_string(size()), module);
    modules_.push_back(std::move(module));
  }
  size_t size() const { return modules_.size(); }
  bool is_empty() const { return modules_.empty(); }
  const std::shared_ptr<Module>& ptr(size_t i) const { return modules_.at(i); }
  const std::shared_ptr<Module>& operator[](size_t i) const { return ptr(i); }
  template <class M>
  M& at(size_t i) const {
    return dynamic_cast<M&>(*ptr(i));
  }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
BINADE_TORCH_MODULE(ModuleList);

// Modules by name, in the order of insertion.
struct ModuleDictImpl : Module {
  using Entry = std::pair<std::string, std::shared_ptr<Module>>;
  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<Entry>& modules) {
    for (const auto& [key, module] : modules) insert(key, module);
  }
  template <class M>
  void insert(const std::string& key, const std::shared_ptr<M>& module) {
    register_module(key, module);
    modules_.emplace_back(key, module);
  }
  bool contains(const std::string& key) const { return find(key) != nullptr; }
  const std::shared_ptr<Module>& operator[](const std::string& key) const {
    const auto* found = find(key);
    if (found == nullptr)
      fail("ModuleDict", {.argument = "key", .expected = "a key of the dict", .found = key});
    return *found;
  }
  size_t size() const { return modules_.size(); }
  bool empty() const { return modules_.empty(); }
  std::vector<std::string> keys() const {
    std::vector<std::string> result;
    for (const auto& [key, module] : modules_) result.push_back(key);
    return result;
  }
  std::vector<std::shared_ptr<Module>> values() const {
    std::vector<std::shared_ptr<Module>> result;
    for (const auto& [key, module] : modules_) result.push_back(module);
    return result;
  }
  const std::vector<Entry>& items() const { return modules_; }

 private:
  const std::shared_ptr<Module>* find(const std::string& key) const {
    for (const auto& [name, module] : modules_) {
      if (name == key) return &module;
    }
    return nullptr;
  }

  std::vector<Entry> modules_;
};
class ModuleDict : public ModuleHolder<ModuleDictImpl> {
 public:
  ModuleDict() : ModuleHolder(std::make_shared<ModuleDictImpl>()) {}
  ModuleDict(std::initializer_list<ModuleDictImpl::Entry> modules)
      : ModuleHolder(std::make_shared<ModuleDictImpl>(modules)) {}
  using ModuleHolder::ModuleHolder;
};

// Parameters in a list, named "0", "1", ...
struct ParameterListImpl : Module {
  void append(const Tensor& parameter) {
    parameters_.push_back(
        register_parameter(std::to_string(size()), parameter, parameter.requires_grad()));
  }
  size_t size() const { return parameters_.size(); }
  bool is_empty() const { return parameters_.empty(); }
  const Tensor& at(size_t i) const { return parameters_.at(i); }
  const Tensor& operator[](size_t i) const { return at(i); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }

 private:
  std::vector<Tensor> parameters_;
};
BINADE_TORCH_MODULE(ParameterList);

}  // namespace binade::torch::nn
