#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "binade/train/run/observer.h"
#include "binade/train/run/progress.h"

namespace binade::train {

// How a run ended.
struct RunResult {
  std::filesystem::path folder;
  std::filesystem::path checkpoint;  // the newest
  std::filesystem::path report;
  int64_t steps = 0;
  bool interrupted = false;  // before the last step, by a signal, the time limit or request_stop()
  bool finished_before = false;  // it was resumed without a step left; nothing has changed
  bool stopped_early = false;    // by patience: the validation loss had stopped falling
  // Why the run has failed although all its steps were taken: it only skipped them, or its loss or
  // validation loss is non-finite or has diverged. Empty if it has not.
  std::string failure;
  // The first difference from the run of config.run.verify, at which training stopped; empty: none.
  std::string difference;
  int signal = 0;  // SIGINT, SIGTERM or SIGHUP if one of them interrupted it
  int64_t validations = 0;
  std::optional<double> first_validation_loss, last_validation_loss, best_validation_loss;
  std::optional<Preferences> last_validation_preferences;  // of a run on pairs
  int64_t best_step = 0;
  std::filesystem::path best;  // the folder of the best model; empty: not kept
  int64_t parameters = 0, trained_parameters = 0;
  double seconds = 0;     // of training steps, with those before a resume
  double elapsed = 0;     // seconds of this call, with validations, samples and checkpoints
  std::string loss_unit;  // "nats per token"
  std::string sample;
};

// Trains as configured and writes config.toml, run.json, metrics.jsonl, metrics.csv, tb/,
// checkpoints/, summary.json and report.html into the run's folder, the tokenizer if it is a file,
// and best/ if the best model is kept. No other process can write there meanwhile. Ctrl-C, SIGTERM,
// SIGHUP and the time limit finish the step and write a checkpoint; a second Ctrl-C ends the
// program; SIGUSR1 writes a checkpoint and training continues. A failed write to standard output
// ends its messages, not the run. The observer, if any, receives every step.
//
// On many ranks, all call it with the same configuration; rank 0 writes, prints and observes, and
// the others return an empty result. Fails before the first step if they differ in version,
// configuration, data, tokenizer or arithmetic.
RunResult run(const Config& config, Progress::Mode mode = Progress::Mode::normal,
              Observer* observer = nullptr,
              const std::shared_ptr<ranks::Communicator>& ranks = ranks::single());

}  // namespace binade::train
