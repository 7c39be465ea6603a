#pragma once

#include <optional>

#include "binade/lab/diagnosis.h"
#include "binade/lab/layer_stats.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/observer.h"

namespace binade::lab {

// Replays the micro-batches of a step (counted from 0) that was taken at loss scale `scale` until
// one is found that is not finite, and says why. The weights, scales and histories stay as they
// are; gradients are forgotten.
std::optional<Diagnosis> examine_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      int64_t step, double scale);

// The doctor at the side of a run:
// - a loss that is not finite, or a skipped step that the loss scaler does not explain, is replayed
//   and diagnosed, once per series of such steps; doctor.txt in the run's folder keeps it;
// - every `layer_stats` steps the layers' statistics go to layers.jsonl;
// - with auto_precision, layers that FP8 harms move to bf16, and precision_plan.json says which.
class Doctor : public train::Observer {
 public:
  // A layer is moved where FP8 takes more than this share of its signal.
  static constexpr double most_harm = 0.25;

  void begin(train::Trainer& trainer, const std::filesystem::path& folder) override;
  bool before_step(train::Trainer& trainer) override;
  std::vector<std::string> after_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      const train::StepResult& result) override;

  const std::vector<Diagnosis>& diagnoses() const { return diagnoses_; }
  // Of the last step with statistics.
  const std::vector<LayerStats>& ranking() const { return ranking_; }
  const train::PrecisionPlan& plan() const { return plan_; }

 private:
  bool looks_at(const train::Config& config, int64_t step) const;
  std::vector<std::string> keep_statistics(train::Trainer& trainer, int64_t step);

  std::filesystem::path folder_;
  std::optional<LayerStatistics> statistics_;
  std::optional<autograd::OpObserverScope> watching_;
  std::vector<LayerStats> ranking_;
  train::PrecisionPlan plan_;
  std::vector<Diagnosis> diagnoses_;
  amp::SkipStreak skipped_in_a_row_;
  bool diagnosed_ = false;  // this series of bad steps
};

}  // namespace binade::lab
