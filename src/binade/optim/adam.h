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
  // Type of the moments: f32; bf16, which halves the optimizer's memory; or u8, which takes a
  // quarter of it: bitsandbytes' dynamic 8-bit code with an f32 scale per 256 elements
  // (formats/dynamic_code.h). Parameters of fewer than 4096 elements have f32 instead of u8.
  DType moments = DType::f32;
  // Divides by the largest second moment so far instead of the present one. Not with u8 moments.
  bool amsgrad = false;
  MasterOptions master = {};
};

struct AdamGroup {
  std::vector<Tensor> parameters;
  AdamOptions options;
};

void visit_options(AdamOptions& options, OptionVisitor& visit);

// Adam with the weight decay added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<Tensor>& parameters, const AdamOptions& options = {});
  explicit Adam(const std::vector<AdamGroup>& groups);
  // Adds parameters with options of their own. The learning rate is set as in the constructor.
  void add_param_group(const AdamGroup& group) { add_adam_group(group); }
  const AdamOptions& group_options(size_t group) const { return group_options_.at(group); }
  // Changes the options of a group, with its learning rate, from the next step on. Options that
  // decide what the optimizer keeps cannot change.
  void set_group_options(size_t group, const AdamOptions& options);

  void set_momentum(double beta1) override;

 protected:
  // Without groups; add_adam_group() adds them.
  Adam(Kind kind, MasterOptions options);
  Adam(Kind kind, const std::vector<AdamGroup>& groups);
  void add_adam_group(const AdamGroup& group);
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  void allocate(size_t group, Slot& slot) override;
  DType moments_type(size_t group, const Tensor& parameter) const override;
  bool keeps(size_t group, std::string_view entry) const override;
  std::array<double, 4> hyper_at(size_t group, int64_t count) const override;

 private:
  std::vector<AdamOptions> group_options_;  // by group; unused for those of a derived class
  bool has_decoupled_decay_;
};

// Adam with the weight decay applied to the weights themselves.
class AdamW : public Adam {
 public:
  explicit AdamW(const std::vector<Tensor>& parameters, const AdamOptions& options = {});
  explicit AdamW(const std::vector<AdamGroup>& groups);
};

}  // namespace binade::optim
