#pragma once

#include <exception>
#include <vector>

#include "binade/train/run/live_report.h"
#include "binade/train/run/saver.h"
#include "binade/train/run/skip_notes.h"
#include "binade/train/run/state.h"
#include "binade/train/watch/trainer_watch.h"

namespace binade::train {

// Records the results of steps: in the log, on the terminal, and with those who watch them.
// Measures the validation loss where the configuration says so.
class StepRecorder {
 public:
  // Both must outlive it. The log is open.
  StepRecorder(RunState& run, RunSaver& saver);

  // Step 0 is the untrained model, which has nothing but a validation loss.
  void record_start();
  // Results that have arrived together. `observed`: something watched the last step, which takes
  // time that is not training's. If the log cannot be written, a checkpoint is saved before this
  // throws.
  void record(const std::vector<StepResult>& results, bool observed);
  // Whether the model is validated after a step.
  bool validates_at(int64_t step) const;

  // The line at the end of a run about skipped steps; empty: none.
  std::string skipped() const { return skips_.total(); }
  // Why the run has failed, by its steps; empty: it has not.
  std::string failure() const { return failure_text(watch_.steps(), run_.log->losses()); }

 private:
  std::exception_ptr record_each(const std::vector<StepResult>& results, bool observed);
  std::exception_ptr record_one(const StepResult& result);
  std::exception_ptr add_to_log(const Record& record);
  void follow_up(const Record& record, const StepResult& result);

  RunState& run_;
  RunSaver& saver_;
  TrainerWatch watch_;
  SkipNotes skips_;
  LiveReport live_report_;
};

}  // namespace binade::train
