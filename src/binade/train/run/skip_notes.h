#pragma once

#include <cstdint>
#include <string>

#include "binade/train/trainer.h"

namespace binade::train {

// What a run says about the steps that it skips: a line for the first of a kind, then one each time
// that their number has grown tenfold.
class SkipNotes {
 public:
  // The line for a step; empty: none.
  std::string add(const StepResult& result);
  // The line at the end of a run; empty if each skip had one of its own.
  std::string total() const;

 private:
  int64_t steps_ = 0, skipped_ = 0, silent_ = 0;
  int64_t next_ = 10;  // the number of skips that has a line again
  bool had_bad_loss_ = false, had_bad_gradient_ = false;
};

}  // namespace binade::train
