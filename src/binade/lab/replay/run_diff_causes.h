#pragma once

#include <functional>

#include "binade/lab/replay/run_diff.h"

namespace binade::lab {

// Something that two runs do not have in common.
struct RunDifference {
  Cause cause;
  // Gives the first run's configuration the second's value; null: it is no setting.
  std::function<void(train::Config&)> give = {};
  bool gives_tokens = false;  // the second run's training tokens, as they are
  bool reads_data = false;    // the first run's data, read anew with the setting

  // Whether the first run can be replayed with it.
  bool is_triable() const {
    return give != nullptr || cause.kind == CauseKind::kernels || gives_tokens;
  }
};

// What two runs do not have in common, as far as it can change bits: settings, data, arithmetic,
// version. Settings are those of a step. Their data must be open for what is said about tokens.
std::vector<RunDifference> differences_of(const RecordedRun& a, const RecordedRun& b, int64_t step);

}  // namespace binade::lab
