#pragma once

#include <functional>

#include "binade/lab/replay/run_diff.h"

namespace binade::lab {

// Something that two runs do not have in common.
struct RunDifference {
  Cause cause;
  // Gives the first run's configuration the second's value; null: it is no setting.
  std::function<void(train::Config&)> give = {};

  bool is_of_data() const {
    return cause.kind == CauseKind::data || cause.kind == CauseKind::order;
  }
  // Whether the first run can be replayed with it.
  bool is_triable() const {
    return give != nullptr || cause.kind == CauseKind::kernels || is_of_data();
  }
};

// What two runs do not have in common, as far as it can change bits: settings, data, arithmetic,
// version. Their data must be open for what is said about tokens.
std::vector<RunDifference> differences_of(const RecordedRun& a, const RecordedRun& b);

}  // namespace binade::lab
