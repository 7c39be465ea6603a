#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "binade/train/observer.h"
#include "binade/train/progress.h"

namespace binade::train {

// How a run ended.
struct RunResult {
  std::filesystem::path folder;
  std::filesystem::path checkpoint;  // the newest
  std::filesystem::path report;
  int64_t steps = 0;
  bool interrupted = false;
  int64_t validations = 0;
  std::optional<double> first_validation_loss, last_validation_loss;
  double seconds = 0;  // of training steps, with those before a resume
  double elapsed = 0;  // seconds of this call, with validations, samples and checkpoints
  bool bytes = false;  // whether each token is a byte
  std::string sample;
};

// Trains as configured and writes config.toml, metrics.jsonl, metrics.csv, tb/, checkpoints/,
// summary.json and report.html into the run's folder, and the tokenizer if it is a file. Ctrl-C
// finishes the step and writes a checkpoint; a second one ends the program. The observer, if any,
// receives every step.
RunResult run(const Config& config, Progress::Mode mode = Progress::Mode::normal,
              Observer* observer = nullptr);

// Ends the run in progress after its current step, as Ctrl-C does. May be called from any thread.
void request_stop();

}  // namespace binade::train
