#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "binade/data/corpus.h"
#include "binade/data/tokenizer.h"
#include "binade/train/config/config.h"
#include "binade/train/hash/run_chain.h"
#include "binade/train/run/folder.h"
#include "binade/train/run/metrics.h"
#include "binade/train/run/newest_numbers.h"
#include "binade/train/run/output.h"
#include "binade/train/run/samples.h"
#include "binade/train/run/step_meter.h"
#include "binade/train/trainer.h"

namespace binade::train {

// What a run that is training consists of: the parts of the loop share it.
struct RunState {
  // Reads the data, makes the trainer and locks the folder. Fails before anything is written if
  // ranks differ.
  RunState(const Config& settings, Progress::Mode mode, Observer* observer,
           const std::shared_ptr<ranks::Communicator>& ranks);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  void note(const std::string& text) { output.note(text); }
  void warn(const std::string& text) { output.warn(text); }
  // Whether each token is a byte.
  bool trains_bytes() const;

  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  Config config = Config();
  Observer* observer;  // may be null
  RunOutput output;
  std::unique_ptr<const data::Tokenizer> tokenizer;
  data::Split split;
  Trainer trainer;
  RunSamples samples;
  RunFolder folder;
  // Steps of one pass over the data; 0: there is no such thing.
  double epoch_steps;
  StepMeter meter;
  // These begin when the run does.
  std::optional<RunChain> chain;
  std::optional<MetricsLog> log;
  std::optional<NewestNumbers> newest;
};

}  // namespace binade::train
