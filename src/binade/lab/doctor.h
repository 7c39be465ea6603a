#pragma once

#include <deque>
#include <future>
#include <memory>
#include <optional>

#include "binade/lab/diagnosis.h"
#include "binade/lab/layer_stats.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/observer.h"

namespace binade::lab {

// Replays the micro-batches of step `step` (counted from 0), which ran at loss scale `scale`, until
// one produces a non-finite value, and diagnoses it. Weights, scales and histories stay unchanged;
// gradients are cleared.
std::optional<Diagnosis> examine_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      int64_t step, double scale);

// Diagnoses a training run:
// - replays a step with a non-finite loss, or a skip that the loss scaler does not explain, once
//   per series of such steps, and appends the diagnosis to doctor.txt in the run's folder;
// - appends the statistics of all linear layers to layers.jsonl every `layer_stats` steps;
// - with auto_precision, moves layers that FP8 harms to bf16 and lists them in precision_plan.json.
class Doctor : public train::Observer {
 public:
  // A layer with more harm than this moves to bf16. Measured harm was at most 0.06 in a healthy
  // run, and 0.15 in healthy layers beside a hostile one (docs/doctor.md).
  static constexpr double max_harm = 0.25;

  ~Doctor() override;
  void begin(train::Trainer& trainer, const std::filesystem::path& folder) override;
  bool before_step(train::Trainer& trainer) override;
  std::vector<std::string> after_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      const train::StepResult& result) override;

  const std::vector<Diagnosis>& diagnoses() const { return diagnoses_; }
  // The ranking of the last step with statistics.
  const std::vector<LayerStats>& ranking() {
    finish_rankings(0);
    return ranking_;
  }
  const train::PrecisionPlan& plan() const { return plan_; }

 private:
  // Drops from the run's files what a resumed run will find again, and takes up the rest.
  void take_up(train::Trainer& trainer);
  bool needs_statistics(const train::Config& config, int64_t step) const;
  // If a step was observed: starts computing its statistics, for a GPU's run on another thread.
  void end_observation(const train::Trainer& trainer);
  // Appends computed statistics to their file; waits for all but the last `left`.
  void finish_rankings(size_t left);
  // Moves layers that FP8 harms to bf16.
  std::vector<std::string> promote(train::Trainer& trainer, int64_t step);

  std::filesystem::path folder_;
  std::shared_ptr<LayerStatistics> statistics_;
  std::optional<autograd::OpObserverScope> observer_scope_;
  int64_t observed_step_ = 0;
  struct PendingRanking {
    int64_t step;
    std::future<std::vector<LayerStats>> layers;
  };
  std::deque<PendingRanking> pending_;
  std::vector<LayerStats> ranking_;
  train::PrecisionPlan plan_;
  std::vector<Diagnosis> diagnoses_;
  size_t earlier_diagnoses_ = 0;  // of the run before it was resumed
  amp::SkipStreak skipped_in_a_row_;
  bool diagnosed_ = false;  // whether the current series of bad steps has its diagnosis
};

}  // namespace binade::lab
