#pragma once

#include <map>
#include <string>

#include "binade/optim/optimizer.h"
#include "binade/optim/rates.h"

namespace binade::optim {

struct PlateauOptions {
  enum class Better : uint8_t { smaller, larger };
  enum class Threshold : uint8_t { relative, absolute };

  Better better = Better::smaller;  // as of a loss, or an accuracy
  double factor = 0.1;
  int64_t patience = 10;  // evaluations without improvement that change nothing
  double threshold = 1e-4;
  Threshold threshold_kind = Threshold::relative;
  int64_t cooldown = 0;  // evaluations after a reduction that are not counted
  double min_lr = 0;
  double eps = 1e-8;  // smaller changes of a learning rate are not made
};

// Multiplies the learning rates of all groups by `factor` when a metric has stopped improving:
// PyTorch's ReduceLROnPlateau.
class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(Rates optimizer, const PlateauOptions& options = {});

  // After each evaluation.
  void step(double metric);
  double best() const { return best_; }

  // Everything that changes, but the learning rates.
  std::map<std::string, double> state() const;
  void load_state(const std::map<std::string, double>& state);

 private:
  bool is_better(double metric) const;

  Rates rates_;
  PlateauOptions options_;
  double best_;
  int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace binade::optim
