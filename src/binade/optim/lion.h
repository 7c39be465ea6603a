#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;           // weight of the momentum in the update
  double beta2 = 0.99;          // decay of the momentum
  double weight_decay = 0;      // of the weights themselves
  DType momentum = DType::f32;  // its type: f32 or bf16
  MasterOptions master = {};
};

struct LionGroup {
  std::vector<Tensor> parameters;
  LionOptions options;
};

void visit_options(LionOptions& options, OptionVisitor& visit);

// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023): steps of size lr in
// the direction sign(beta1 * m + (1 - beta1) * g), then m = beta2 * m + (1 - beta2) * g. It wants a
// learning rate 3 to 10 times smaller than AdamW's and a weight decay as much larger. On the CPU.
class Lion : public Optimizer {
 public:
  explicit Lion(const std::vector<Tensor>& parameters, const LionOptions& options = {});
  explicit Lion(const std::vector<LionGroup>& groups);

  void set_momentum(double beta1) override;

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  DType moments_type(size_t group, const Tensor&) const override {
    return group_options_[group].momentum;
  }

 private:
  std::vector<LionOptions> group_options_;
};

}  // namespace binade::optim
