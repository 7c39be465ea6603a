#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/lr_scheduler.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/sgd.h"
#include "binade/torch/holder.h"

// torch::optim: the library's optimizers behind param_groups, whose options may be changed between
// steps.
namespace binade::torch::optim {

using binade::optim::CosineAnnealingLR;
using binade::optim::ExponentialLR;
using binade::optim::LambdaLR;
using binade::optim::LinearLR;
using binade::optim::LRScheduler;
using binade::optim::MultiStepLR;
using binade::optim::OneCycleLR;
using binade::optim::Rates;
using binade::optim::ReduceLROnPlateauScheduler;
using binade::optim::StepLR;

// The options of a group: those of one optimizer's class below.
class OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
};

template <class Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }
};

struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT: a rate stands for its options
  BINADE_TORCH_ARG(double, lr);
  BINADE_TORCH_ARG(double, momentum) = 0;
  BINADE_TORCH_ARG(double, dampening) = 0;
  BINADE_TORCH_ARG(double, weight_decay) = 0;
  BINADE_TORCH_ARG(bool, nesterov) = false;

 public:
  binade::optim::SgdOptions plain() const;
};

struct AdamOptions : OptimizerCloneableOptions<AdamOptions> {
  AdamOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT
  using Betas = std::tuple<double, double>;
  BINADE_TORCH_ARG(double, lr);
  BINADE_TORCH_ARG(Betas, betas) = {0.9, 0.999};
  BINADE_TORCH_ARG(double, eps) = 1e-8;
  BINADE_TORCH_ARG(double, weight_decay) = 0;
  BINADE_TORCH_ARG(bool, amsgrad) = false;

 public:
  binade::optim::AdamOptions plain() const;
};

struct AdamWOptions : OptimizerCloneableOptions<AdamWOptions> {
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT
  using Betas = std::tuple<double, double>;
  BINADE_TORCH_ARG(double, lr);
  BINADE_TORCH_ARG(Betas, betas) = {0.9, 0.999};
  BINADE_TORCH_ARG(double, eps) = 1e-8;
  BINADE_TORCH_ARG(double, weight_decay) = 1e-2;
  BINADE_TORCH_ARG(bool, amsgrad) = false;

 public:
  binade::optim::AdamOptions plain() const;
};

struct RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT
  BINADE_TORCH_ARG(double, lr);
  BINADE_TORCH_ARG(double, alpha) = 0.99;
  BINADE_TORCH_ARG(double, eps) = 1e-8;
  BINADE_TORCH_ARG(double, weight_decay) = 0;
  BINADE_TORCH_ARG(double, momentum) = 0;
  BINADE_TORCH_ARG(bool, centered) = false;

 public:
  binade::optim::RmspropOptions plain() const;
};

struct AdagradOptions : OptimizerCloneableOptions<AdagradOptions> {
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT
  BINADE_TORCH_ARG(double, lr);
  BINADE_TORCH_ARG(double, lr_decay) = 0;
  BINADE_TORCH_ARG(double, weight_decay) = 0;
  BINADE_TORCH_ARG(double, initial_accumulator_value) = 0;
  BINADE_TORCH_ARG(double, eps) = 1e-10;

 public:
  binade::optim::AdagradOptions plain() const;
};

// Parameters with options of their own, or with the optimizer's defaults.
class OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> parameters)  // NOLINT: as LibTorch's
      : parameters_(std::move(parameters)) {}
  OptimizerParamGroup(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> options)
      : parameters_(std::move(parameters)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& other)
      : parameters_(other.parameters_),
        options_(other.has_options() ? other.options_->clone() : nullptr) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  OptimizerParamGroup& operator=(OptimizerParamGroup other) {
    parameters_ = std::move(other.parameters_);
    options_ = std::move(other.options_);
    return *this;
  }

  const std::vector<Tensor>& params() const { return parameters_; }
  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() { return *options_; }
  const OptimizerOptions& options() const { return *options_; }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }

 private:
  std::vector<Tensor> parameters_;
  std::unique_ptr<OptimizerOptions> options_;
};

class Optimizer : public amp::Steppable {
 public:
  // A step, of the gradients that `closure` computes first if there is one; returns its loss.
  Tensor step(const std::function<Tensor()>& closure);
  void step() { step(amp::StepControl{}); }
  // For GradScaler.
  void step(const amp::StepControl& control) override;

  // Without `set_to_none` gradients become zeros and stay.
  void zero_grad(bool set_to_none = true);
  std::vector<Tensor> parameters() const override { return native().parameters(); }
  std::vector<Tensor> gradients() const override { return native().gradients(); }
  std::vector<OptimizerParamGroup>& param_groups() { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return groups_; }
  virtual void add_param_group(const OptimizerParamGroup& group) = 0;
  OptimizerOptions& defaults() { return *defaults_; }
  StateDict state_dict() { return native().state_dict(); }
  void load_state_dict(const StateDict& state) { native().load_state_dict(state); }
  operator Rates();  // for schedulers, which set the options of the groups

 protected:
  explicit Optimizer(std::unique_ptr<OptimizerOptions> defaults) : defaults_(std::move(defaults)) {}
  virtual binade::optim::Optimizer& native() const = 0;
  // Gives the options of all groups to the library's optimizer.
  virtual void apply_options() = 0;
  // The group with options: its own or the defaults.
  OptimizerParamGroup complete(const OptimizerParamGroup& group) const;

  std::vector<OptimizerParamGroup> groups_;

 private:
  std::unique_ptr<OptimizerOptions> defaults_;
};

// An optimizer of the library, Native, whose groups are NativeGroup.
template <class Native, class NativeGroup, class Options>
class OptimizerOf : public Optimizer {
 public:
  explicit OptimizerOf(const std::vector<Tensor>& parameters, const Options& defaults = {})
      : OptimizerOf(std::vector<OptimizerParamGroup>{OptimizerParamGroup(parameters)}, defaults) {}
  explicit OptimizerOf(const std::vector<OptimizerParamGroup>& groups, const Options& defaults = {})
      : Optimizer(defaults.clone()) {
    for (const OptimizerParamGroup& group : groups) add_param_group(group);
  }

  void add_param_group(const OptimizerParamGroup& group) override {
    groups_.push_back(complete(group));
    const NativeGroup added{group.params(), options_of(groups_.size() - 1)};
    if (native_ == nullptr) {
      native_ = std::make_unique<Native>(std::vector{added});
    } else {
      native_->add_param_group(added);
    }
  }

 protected:
  binade::optim::Optimizer& native() const override {
    if (native_ == nullptr)
      fail("Optimizer", {.argument = "groups", .expected = "at least one", .found = "none"});
    return *native_;
  }
  void apply_options() override {
    for (size_t i = 0; i < groups_.size(); ++i) native_->set_group_options(i, options_of(i));
  }

 private:
  auto options_of(size_t group) const {
    return static_cast<const Options&>(groups_[group].options()).plain();
  }

  std::unique_ptr<Native> native_;
};

struct SGD : OptimizerOf<binade::optim::SGD, binade::optim::SgdGroup, SGDOptions> {
  using OptimizerOf::OptimizerOf;
};
struct Adam : OptimizerOf<binade::optim::Adam, binade::optim::AdamGroup, AdamOptions> {
  using OptimizerOf::OptimizerOf;
};
struct AdamW : OptimizerOf<binade::optim::AdamW, binade::optim::AdamGroup, AdamWOptions> {
  using OptimizerOf::OptimizerOf;
};
struct RMSprop : OptimizerOf<binade::optim::RMSprop, binade::optim::RmspropGroup, RMSpropOptions> {
  using OptimizerOf::OptimizerOf;
};
struct Adagrad : OptimizerOf<binade::optim::Adagrad, binade::optim::AdagradGroup, AdagradOptions> {
  using OptimizerOf::OptimizerOf;
};

}  // namespace binade::torch::optim
