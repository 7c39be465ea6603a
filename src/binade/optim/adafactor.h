#pragma once

#include <optional>

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct AdafactorOptions {
  double lr = 1e-2;            // update n has at most 1 / sqrt(n)
  double beta2_decay = -0.8;   // update n keeps 1 - n^beta2_decay of the second moment
  std::optional<double> eps1;  // smallest root of a second moment; none: f32's epsilon
  double eps2 = 1e-3;          // smallest root mean square of a parameter
  double d = 1;                // largest root mean square of an update before the learning rate
  double weight_decay = 0;     // of the weights themselves
  MasterOptions master = {};   // without stochastic rounding
};

struct AdafactorGroup {
  std::vector<Tensor> parameters;
  AdafactorOptions options;
};

void visit_options(AdafactorOptions& options, OptionVisitor& visit);

// Adafactor as in PyTorch: the second moment of a matrix is the product of a column and a row, so
// its state is n + m numbers for a matrix of n x m. Steps are relative to a parameter's size. On
// the CPU, by plain ops.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const std::vector<Tensor>& parameters, const AdafactorOptions& options = {});
  explicit Adafactor(const std::vector<AdafactorGroup>& groups);

 protected:
  void update(size_t group, std::span<Slot*> slots, const StepControl& control) override;
  void allocate(size_t group, Slot& slot) override;

 private:
  std::vector<AdafactorOptions> group_options_;
};

}  // namespace binade::optim
