#pragma once

#include <optional>

#include "binade/train/run/loop.h"
#include "binade/train/run/recorder.h"
#include "binade/train/run/saver.h"
#include "binade/train/run/signals.h"
#include "binade/train/run/state.h"

// The end of a run.
namespace binade::train {

// Why training has ended.
struct Ending {
  bool interrupted = false, stopped_early = false;  // as in RunResult
  bool has_trained = false;                         // in this process
};

// Whether the validation losses have stopped falling for too long (config.run.patience).
bool is_out_of_patience(const Config& config, const LossHistory& losses);

// The result of a run that had ended before it was resumed, which then stays as it is. None if
// steps are left, or if its end was not recorded.
std::optional<RunResult> finished_before(RunState& run, RunSaver& saver);

// Writes the sample, the summary and the report of a run whose last checkpoint is complete.
RunResult finish(RunState& run, const RunSaver& saver, const StepRecorder& recorder,
                 const SignalGuard& signals, const Ending& ending);

// Writes the report of the steps in the log, from the files, as `binade report` does. A folder that
// was removed at the end has no steps.
void report_so_far(const RunState& run);

}  // namespace binade::train
