#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct NadamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;  // beta1 at update t is beta1 (1 - 0.96^(t momentum_decay) / 2)
  bool decoupled_decay = false;  // of the weights themselves (NAdamW), instead of in the gradient
  DType moments = DType::f32;    // f32 or bf16
  MasterOptions master = {};
};

struct NadamGroup {
  std::vector<Tensor> parameters;
  NadamOptions options;
};

void visit_options(NadamOptions& options, OptionVisitor& visit);

// NAdam (Dozat, 2016) as in PyTorch: Adam with Nesterov's momentum, which looks one update ahead.
// On the CPU.
class NAdam : public Optimizer {
 public:
  explicit NAdam(const std::vector<Tensor>& parameters, const NadamOptions& options = {});
  explicit NAdam(const std::vector<NadamGroup>& groups);

  void set_momentum(double beta1) override;

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  DType moments_type(size_t group, const Tensor&) const override {
    return group_options_[group].moments;
  }

 private:
  std::vector<NadamOptions> group_options_;
};

}  // namespace binade::optim
