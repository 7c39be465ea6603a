#pragma once

#include "binade/base/restore.h"

namespace binade::autograd {

struct Node;

// For its lifetime, a backward on this thread fails at the first op whose gradients hold NaN, and
// names the op and the module of its forward. Slow: every gradient is read on the host. PyTorch's
// anomaly mode; lab/diagnosis.h finds the cause without running again.
class [[nodiscard]] DetectAnomaly {
 public:
  DetectAnomaly();

 private:
  Restore<bool> scope_;
};

// Whether this thread is within DetectAnomaly.
bool detects_anomalies();

// For the engine: fails if the backward of `node` wrote NaN. Does nothing outside of DetectAnomaly.
void check_for_anomaly(const Node& node);

}  // namespace binade::autograd
