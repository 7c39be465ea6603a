#pragma once

#include <concepts>
#include <deque>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/autograd/module_path.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Named tensors, as saved and loaded.
using StateDict = std::map<std::string, Tensor>;

}  // namespace binade

namespace binade::amp {
class LayerScales;
}

namespace binade::nn {

class Module;

// The device and dtype of a module's parameters.
struct Placement {
  Device device = Device::cpu();
  DType dtype = DType::f32;
};

// A tensor with its path; auto& [name, tensor], or key() and value() as in LibTorch.
struct NamedTensor : std::pair<std::string, Tensor> {
  using pair::pair;

  const std::string& key() const { return first; }
  Tensor& value() { return second; }
  const Tensor& value() const { return second; }
  const Tensor& operator*() const { return second; }
  const Tensor* operator->() const { return &second; }
};

// A module with its path.
struct NamedModule : std::pair<std::string, Module*> {
  using pair::pair;

  const std::string& key() const { return first; }
  Module* value() const { return second; }
};

// Tensors in the order of registration, also by path.
class NamedTensors : public std::vector<NamedTensor> {
 public:
  using vector::vector;
  using vector::operator[];

  bool contains(const std::string& key) const { return find(key) != nullptr; }
  // Null if there is none; operator[] fails then.
  const Tensor* find(const std::string& key) const;
  const Tensor& operator[](const std::string& key) const;
  std::vector<std::string> keys() const;
  operator std::vector<std::pair<std::string, Tensor>>() const { return {begin(), end()}; }
};

// Owns named parameters (leaves that require a gradient) and buffers, and refers to its named
// children. Modules cannot be copied or moved, because parents and optimizers point to them.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Depth first, in the order of registration; names are paths like "h.0.attn.weight".
  // Without `recurse` those of this module alone.
  NamedTensors named_parameters(bool recurse = true) const;
  NamedTensors named_buffers() const;
  std::vector<NamedModule> named_modules();
  std::vector<NamedModule> named_children() const;
  std::vector<Tensor> parameters() const;
  std::vector<Tensor> buffers() const;
  // The modules that this one refers to, and these with all below them, itself first.
  std::vector<Module*> children() const;
  std::vector<Module*> modules();
  // Elements of parameters, and of weights in blocks, which are none (block_weight_count()).
  int64_t parameter_count() const;

  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  bool is_training() const { return training_; }

  // Moves parameters and buffers, or converts the parameters' type. Drops gradients. All handles to
  // a parameter follow; an optimizer that was made before refuses its next step.
  void to(Device device);
  void to(DType dtype);
  void to(Device device, DType dtype);
  // Drops gradients, or sets them to zeros.
  void zero_grad(bool set_to_none = true);

  // Parameters and buffers, shared with the module. Not const: histories of scales are flushed
  // first.
  StateDict state_dict();
  // Copies values in, converting types. Fails, naming all of them, if entries are missing,
  // unexpected or of another shape; without `strict` missing and unexpected ones are ignored.
  void load_state_dict(const StateDict& state, bool strict = true);

  // state_dict() into an archive of torch/serialize.h, and load_state_dict() from one.
  template <class Archive>
  void save(Archive& archive) {
    for (const auto& [name, tensor] : state_dict()) archive.write(name, tensor);
  }
  template <class Archive>
  void load(Archive& archive) {
    StateDict state;
    for (const std::string& key : archive.keys()) archive.read(key, state[key]);
    load_state_dict(state);
  }

  // The scales that a linear layer keeps for its recipe; null for other modules. For the library's
  // own use.
  virtual amp::LayerScales* layer_scales() { return nullptr; }
  // The elements of a weight that this module itself, without its children, holds in blocks of few
  // bits.
  virtual int64_t block_weight_count() const { return 0; }

  const std::string& name() const { return name_; }
  // LibTorch's registration: the module keeps what it is given and returns it, for a member that is
  // another handle to it. A child is a std::shared_ptr<M>, or a holder of one that has ptr().
  Tensor register_parameter(std::string name, Tensor parameter, bool requires_grad = true);
  Tensor register_buffer(std::string name, Tensor buffer);
  template <class M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module) {
    add_owned_child(name, module);
    return module;
  }
  template <class Holder>
  requires requires(const Holder& holder) { holder.ptr(); }
  Holder register_module(const std::string& name, Holder holder) {
    add_owned_child(name, holder.ptr());
    return holder;
  }
  // A member of this module, or one that outlives it.
  template <class M>
  requires std::derived_from<M, Module> M& register_module(const std::string& name, M& module) {
    add_child(name, module);
    return module;
  }

  // Another child in the place of one, and none.
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    replace_child(name, module);
    return module;
  }
  template <class Holder>
  requires requires(const Holder& holder) { holder.ptr(); }
  Holder replace_module(const std::string& name, Holder holder) {
    replace_child(name, holder.ptr());
    return holder;
  }
  void unregister_module(const std::string& name) { replace_child(name, nullptr); }

  // Calls f on this module and all below it.
  template <class F>
  void apply(F&& f) {
    for (Module* module : modules()) f(*module);
  }
  // This module as an M, or as what a holder M holds; null if it is another.
  template <class M>
  auto* as() {
    if constexpr (requires { typename M::ContainedType; }) {
      return dynamic_cast<typename M::ContainedType*>(this);
    } else {
      return dynamic_cast<M*>(this);
    }
  }

  // The class and its sizes, "Linear(64, 10)": a line of the tree that << prints. By default the
  // class alone.
  virtual std::string description() const;

 protected:
  // Called by constructors. The tensor is a member of the module; it may be undefined (no bias).
  void add_parameter(std::string name, Tensor& parameter);
  void add_buffer(std::string name, Tensor& buffer);
  void add_child(std::string name, Module& child);
  void add_owned_child(std::string name, std::shared_ptr<Module> child);
  // Null removes the child. Fails if there is none of the name.
  void replace_child(const std::string& name, std::shared_ptr<Module> child);

  // For modules whose state is created at the first use: before_save makes it ready to be saved,
  // before_load creates it if `state` has entries under `prefix`.
  virtual void before_save() {}
  virtual void before_load(const StateDict& state, const std::string& prefix) {
    static_cast<void>(state);
    static_cast<void>(prefix);
  }

  // Held by forward functions, so that ops know the path of the current module.
  [[nodiscard]] autograd::ModuleScope enter() const { return autograd::ModuleScope(name_); }

 private:
  // Calls f(path, module) for `module`, at path `prefix`, and all modules below it.
  template <class M, class F>
  static void visit(M& module, const std::string& prefix, F&& f);

  std::string name_;
  bool training_ = true;
  std::vector<std::pair<std::string, Tensor*>> parameters_;
  std::vector<std::pair<std::string, Tensor*>> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::deque<Tensor> registered_;  // by register_parameter() and register_buffer()
  std::vector<std::shared_ptr<Module>> owned_;

  friend std::ostream& operator<<(std::ostream& out, const Module& module);
};

// The modules as a tree, one per line with its number of parameters:
//
//   Sequential, 1,300 parameters
//     0: Linear(64, 20), 1,300 parameters
//     1: ReLU
std::ostream& operator<<(std::ostream& out, const Module& module);

// A registered hook. Dropping the handle leaves the hook in place.
class HookHandle {
 public:
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  // Removes the hook; further calls do nothing, also after the end of the layer.
  void remove();

 private:
  std::function<void()> remove_;
};

// A module from one tensor to one tensor. Calls are not const: batch norm updates its running
// statistics, and a linear layer its scales.
class Layer : public Module {
 public:
  Tensor operator()(const Tensor& x) {
    const auto scope = enter();
    return hooks_ ? with_hooks(x) : forward(x);
  }

  // Called before and after forward, in the order of registration, and again if recompute runs a
  // layer a second time. The result, if defined, replaces the input or the output.
  using ForwardPreHook = std::function<Tensor(Layer& layer, const Tensor& input)>;
  using ForwardHook =
      std::function<Tensor(Layer& layer, const Tensor& input, const Tensor& output)>;
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  // Whether a hook was registered. Fused ops do not replace such a layer.
  bool has_hooks() const { return hooks_ != nullptr; }

 protected:
  virtual Tensor forward(const Tensor& x) = 0;

 private:
  struct Hooks;
  Hooks& hooks();
  Tensor with_hooks(const Tensor& x);

  std::shared_ptr<Hooks> hooks_;  // null until the first one is registered
};

}  // namespace binade::nn
