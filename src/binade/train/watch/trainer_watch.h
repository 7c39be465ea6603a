#pragma once

#include "binade/train/run/metrics.h"
#include "binade/train/watch/run_watch.h"
#include "binade/train/watch/weight_sample.h"

namespace binade::train {

// The facts of a run. The model may be on the meta device.
RunFacts run_facts(const Config& config, const nn::LanguageModel& model);
StepFacts step_facts(const Record& record);
// Why a run has failed, by its steps and validations; empty if it has not.
std::string failure_text(const RunWatch& watch, const LossHistory& losses);

// Observes the steps of a Trainer. Reads a few weights at the start, after 20 steps and when there
// is an alarm, and changes nothing.
class TrainerWatch {
 public:
  explicit TrainerWatch(Trainer& trainer);

  // A step before this process, whose alarms were raised then.
  void add_earlier(const Record& record);
  // The alarms of a step, each cause once.
  std::vector<Alarm> add(Trainer& trainer, const Record& record);
  const RunWatch& steps() const { return watch_; }

 private:
  WeightSample sample(Trainer& trainer) const;
  // An alarm if the learning rate is too low for the whole run.
  std::optional<Alarm> check_reach(const Trainer& trainer, int64_t step) const;
  // The parameter that stands out in the run's weights, for causes that one may have.
  std::string module_of(Trainer& trainer, Cause cause) const;

  RunWatch watch_;
  std::vector<std::pair<std::string, Tensor>> parameters_;
  int64_t first_step_;  // of this process
  int64_t first_skipped_;
  WeightSample start_;
};

}  // namespace binade::train
