#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "binade/nn/module.h"

// How LibTorch's programs hold modules: Linear fc(3, 2), then fc->forward(x) or fc(x).
namespace binade::torch {

// NOLINTBEGIN(bugprone-macro-parentheses): names and types cannot stand in parentheses.

// An option of a chain, Conv2dOptions(3, 8, 5).stride(2): a setter that returns the options, and a
// getter.
#define BINADE_TORCH_ARG(T, name)           \
 public:                                    \
  auto name(T value)->decltype(*this) {     \
    name##_ = std::move(value);             \
    return *this;                           \
  }                                         \
  const T& name() const { return name##_; } \
  T& name() { return name##_; }             \
                                            \
 private:                                   \
  T name##_

// NOLINTEND(bugprone-macro-parentheses)

namespace nn {

using binade::nn::Module;

// A module of the library with LibTorch's way to call it. Both forms run hooks.
template <class M>
struct Callable : M {
  using M::M;

  template <class... Args>
  auto forward(Args&&... args) {
    return static_cast<M&>(*this)(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return static_cast<M&>(*this)(std::forward<Args>(args)...);
  }
};

// A shared handle to a module: copies refer to the same one.
template <class M>
class ModuleHolder {
 public:
  using ContainedType = M;

  ModuleHolder() : module_(make_default()) {}
  ModuleHolder(std::nullptr_t) {}                                          // NOLINT: as LibTorch's
  ModuleHolder(std::shared_ptr<M> module) : module_(std::move(module)) {}  // NOLINT
  template <class First, class... Rest>
  requires((sizeof...(Rest) > 0 || !std::derived_from<std::decay_t<First>, ModuleHolder>)&&std::
               constructible_from<M, First, Rest...>) explicit ModuleHolder(First&& first,
                                                                            Rest&&... rest)
      : module_(std::make_shared<M>(std::forward<First>(first), std::forward<Rest>(rest)...)) {}

  // Fail if the holder is empty.
  M* operator->() const { return get(); }
  M& operator*() const { return *get(); }
  M* get() const {
    if (module_ == nullptr)
      fail("module", {.argument = "holder", .expected = "a module", .found = "an empty holder"});
    return module_.get();
  }
  template <class... Args>
  auto operator()(Args&&... args) const {
    return get()->forward(std::forward<Args>(args)...);
  }

  // An element of a container: net[0]->as<Linear>().
  template <class I>
  requires requires(M& module, I index) { module[index]; }
  decltype(auto) operator[](I index) const { return (*get())[index]; }

  const std::shared_ptr<M>& ptr() const { return module_; }
  bool is_empty() const { return module_ == nullptr; }
  explicit operator bool() const { return module_ != nullptr; }

 private:
  static std::shared_ptr<M> make_default() {
    if constexpr (std::default_initializable<M>) {
      return std::make_shared<M>();
    } else {
      return nullptr;
    }
  }

  std::shared_ptr<M> module_;
};

template <class M>
std::ostream& operator<<(std::ostream& out, const ModuleHolder<M>& holder) {
  return out << *holder;
}

// NOLINTBEGIN(bugprone-macro-parentheses): as above.

// For programs: TORCH_MODULE(Net) after struct NetImpl.
#define BINADE_TORCH_MODULE_IMPL(Name, Impl)                     \
  class Name : public ::binade::torch::nn::ModuleHolder<Impl> {  \
   public:                                                       \
    using ::binade::torch::nn::ModuleHolder<Impl>::ModuleHolder; \
  }
// For template arguments inside macro arguments.
#define BINADE_TORCH_COMMA ,
#define BINADE_TORCH_MODULE(Name) BINADE_TORCH_MODULE_IMPL(Name, Name##Impl)
#ifndef TORCH_MODULE
#define TORCH_MODULE_IMPL(Name, Impl) BINADE_TORCH_MODULE_IMPL(Name, Impl)
#define TORCH_MODULE(Name) BINADE_TORCH_MODULE(Name)
#endif

// NOLINTEND(bugprone-macro-parentheses)

// LibTorch's base of modules that can be cloned, under which programs register as under Module.
template <class Derived>
class Cloneable : public Module {};

}  // namespace nn
}  // namespace binade::torch
