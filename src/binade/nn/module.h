#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/autograd/module_path.h"
#include "binade/tensor/tensor.h"

namespace binade {

// Tensors by name, as they are saved and loaded.
using StateDict = std::map<std::string, Tensor>;

}  // namespace binade

namespace binade::nn {

// Where a module's parameters live and in which type.
struct Placement {
  Device device = Device::cpu();
  DType dtype = DType::f32;
};

// Owns parameters (leaves that require a gradient) and buffers, and knows its children, all by
// name. A module stays where it was made: parents and optimizers point to it.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Depth first, in the order of registration; names are paths such as "h.0.attn.weight".
  std::vector<std::pair<std::string, Tensor>> named_parameters() const;
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::vector<Tensor> parameters() const;
  int64_t parameter_count() const;

  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  // Moves parameters and buffers, or converts the parameters' type. Gradients are dropped: make the
  // optimizer afterwards.
  void to(Device device);
  void to(DType dtype);
  void zero_grad();

  // Parameters and buffers, shared with the module rather than copied.
  StateDict state_dict();
  // Copies values in, converting types. Missing, surplus and misshapen entries are an error naming
  // all of them; without `strict` missing and surplus ones are passed over.
  void load_state_dict(const StateDict& state, bool strict = true);

  const std::string& name() const { return name_; }

 protected:
  // Called by constructors. The tensor is a member of the module and may be undefined (no bias).
  void add_parameter(std::string name, Tensor& parameter);
  void add_buffer(std::string name, Tensor& buffer);
  void add_child(std::string name, Module& child);

  // For modules that keep state which exists only once it was used: make it ready to be saved;
  // create it where `state` holds entries under `prefix`.
  virtual void before_save() {}
  virtual void before_load(const StateDict& state, const std::string& prefix) {
    static_cast<void>(state);
    static_cast<void>(prefix);
  }

  // Held by forward functions, so that ops know which module they run for.
  [[nodiscard]] autograd::ModuleScope enter() const { return autograd::ModuleScope(name_); }

 private:
  template <class F>
  void visit(const std::string& prefix, F&& f) const;

  std::string name_;
  bool training_ = true;
  std::vector<std::pair<std::string, Tensor*>> parameters_;
  std::vector<std::pair<std::string, Tensor*>> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
};

// A module from one tensor to one tensor.
class Layer : public Module {
 public:
  Tensor operator()(const Tensor& x) {
    const auto scope = enter();
    return forward(x);
  }

 protected:
  virtual Tensor forward(const Tensor& x) = 0;
};

}  // namespace binade::nn
