#pragma once

#include <optional>
#include <string>

#include "binade/train/run/folder.h"
#include "binade/train/run/metrics.h"
#include "binade/train/run/observer.h"
#include "binade/train/run/prometheus.h"
#include "binade/train/trainer.h"

namespace binade::train {

// Keeps config.run.metrics_file at a run's newest numbers.
class NewestNumbers {
 public:
  struct Run {
    const Config& config;
    Trainer& trainer;
    const MetricsLog& log;
    Observer* observer;        // may be null
    double epoch_steps;        // of one pass over the data; 0: there is no such thing
    const double& full_speed;  // tokens/s; 0 as soon as it turns out to be wrong
  };

  // Begins with the last line of the folder's log, or with `first` if the run is new. What `run`
  // refers to must outlive it. Fails if the file cannot be written.
  NewestNumbers(const Run& run, const RunFolder& folder, const Record& first);

  // These return a warning when the file can no longer be written, the first time; else nothing.
  std::string add(const Record& record);
  // A checkpoint was written now.
  std::string note_checkpoint();

 private:
  PrometheusNumbers numbers() const;

  Run run_;
  Record newest_;
  std::optional<double> checkpoint_time_;  // seconds since 1970
  PrometheusFile file_;
};

}  // namespace binade::train
