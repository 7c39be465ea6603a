#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
  MasterOptions master = {};
};

struct SgdGroup {
  std::vector<Tensor> parameters;
  SgdOptions options;
};

void visit_options(SgdOptions& options, OptionVisitor& visit);

// Stochastic gradient descent with momentum, as in PyTorch.
class SGD : public Optimizer {
 public:
  explicit SGD(const std::vector<Tensor>& parameters, const SgdOptions& options = {});
  explicit SGD(const std::vector<SgdGroup>& groups);
  // Adds parameters with options of their own. The learning rate is set as in the constructor.
  void add_param_group(const SgdGroup& group);
  const SgdOptions& group_options(size_t group) const { return group_options_.at(group); }
  // Changes the options of a group, with its learning rate, from the next step on. Options that
  // decide what the optimizer keeps cannot change.
  void set_group_options(size_t group, const SgdOptions& options);

  // Only of groups that were created with momentum. At 0 their momentum buffers rest, as in
  // PyTorch, and are used again once it is above.
  void set_momentum(double momentum) override;

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  bool keeps(size_t group, std::string_view) const override { return has_momentum_[group]; }

 private:
  std::vector<SgdOptions> group_options_;
  std::vector<bool> has_momentum_;  // by group, from its creation on
};

}  // namespace binade::optim
