#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // decay of the mean square
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  double momentum = 0;
  bool centered = false;  // divides by the deviation instead of the root mean square
  MasterOptions master = {};
};

struct RmspropGroup {
  std::vector<Tensor> parameters;
  RmspropOptions options;
};

void visit_options(RmspropOptions& options, OptionVisitor& visit);

// RMSprop as in PyTorch. On the CPU.
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const std::vector<Tensor>& parameters, const RmspropOptions& options = {});
  explicit RMSprop(const std::vector<RmspropGroup>& groups);
  // Adds parameters with options of their own. The learning rate is set as in the constructor.
  void add_param_group(const RmspropGroup& group);
  const RmspropOptions& group_options(size_t group) const { return group_options_.at(group); }
  // Changes the options of a group, with its learning rate, from the next step on. Options that
  // decide what the optimizer keeps cannot change.
  void set_group_options(size_t group, const RmspropOptions& options);

  // Only of groups that were created with momentum. At 0 their momentum buffers rest, as in
  // PyTorch, and are used again once it is above.
  void set_momentum(double momentum) override;

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  bool keeps(size_t group, std::string_view entry) const override;

 private:
  void check_options(const RmspropOptions& options) const;

  std::vector<RmspropOptions> group_options_;
  std::vector<bool> has_momentum_;  // by group, from its creation on
};

}  // namespace binade::optim
