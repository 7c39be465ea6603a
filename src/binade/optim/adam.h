#pragma once

#include <optional>

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  std::optional<double> weight_decay = {};  // default: 0 for Adam, 0.01 for AdamW
  DType moments = DType::f32;               // or bf16, which halves the optimizer's memory
  MasterOptions master = {};
};

struct AdamGroup {
  std::vector<Tensor> parameters;
  AdamOptions options;
};

// Adam with the weight decay added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<Tensor>& parameters, const AdamOptions& options = {});
  explicit Adam(const std::vector<AdamGroup>& groups);

 protected:
  Adam(const char* name, const std::vector<AdamGroup>& groups, bool decoupled_decay);
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  void allocate(size_t group, Slot& slot) override;
  std::array<double, 4> hyper_at(size_t group, int64_t count) const override;

 private:
  std::vector<AdamOptions> group_options_;
  bool decoupled_decay_;
};

// Adam with the weight decay applied to the weights themselves.
class AdamW : public Adam {
 public:
  explicit AdamW(const std::vector<Tensor>& parameters, const AdamOptions& options = {});
  explicit AdamW(const std::vector<AdamGroup>& groups);
};

}  // namespace binade::optim
