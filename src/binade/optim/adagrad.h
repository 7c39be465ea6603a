#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;      // update n has lr / (1 + (n - 1) * lr_decay)
  double weight_decay = 0;  // added to the gradient
  double initial_sum = 0;   // of squares: PyTorch's initial_accumulator_value
  double eps = 1e-10;
  MasterOptions master = {};
};

struct AdagradGroup {
  std::vector<Tensor> parameters;
  AdagradOptions options;
};

void visit_options(AdagradOptions& options, OptionVisitor& visit);

// Adagrad as in PyTorch. On the CPU.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const std::vector<Tensor>& parameters, const AdagradOptions& options = {});
  explicit Adagrad(const std::vector<AdagradGroup>& groups);
  // Adds parameters with options of their own. The learning rate is set as in the constructor.
  void add_param_group(const AdagradGroup& group);
  const AdagradOptions& group_options(size_t group) const { return group_options_.at(group); }
  // Changes the options of a group, with its learning rate, from the next step on. Options that
  // decide what the optimizer keeps cannot change.
  void set_group_options(size_t group, const AdagradOptions& options);

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  void allocate(size_t group, Slot& slot) override;

 private:
  void check_options(const AdagradOptions& options) const;

  std::vector<AdagradOptions> group_options_;
};

}  // namespace binade::optim
