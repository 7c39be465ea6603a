#pragma once

#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "binade/io/tensorboard.h"
#include "binade/lab/auto_precision.h"
#include "binade/lab/diagnosis.h"
#include "binade/lab/layer_stats.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/run/observer.h"

namespace binade::lab {

// Diagnoses a training run:
// - replays a step with a non-finite loss, a skip that the loss scaler does not explain, or
//   gradients that are zero, once per series of such steps, and appends the diagnosis to doctor.txt
//   in the run's folder, the first cure to cure.toml; explains loss spikes in doctor.txt, too;
// - appends the statistics of linear layers to layers.jsonl, and to tb/layers for TensorBoard, in
//   every `layer_stats`-th step;
// - with auto_precision, moves matmuls that the recipe harms to finer scales or bf16, and back, and
// lists
//   the changes in precision_plan.json.
class Doctor : public train::Observer {
 public:
  ~Doctor() override;
  std::vector<std::string> begin(train::Trainer& trainer, const io::Path& folder) override;
  bool before_step(train::Trainer& trainer) override;
  void before_checkpoint(train::Trainer& trainer) override;
  void note_alarm(const train::Alarm& alarm) override;
  std::vector<train::QuantizationShare> quantization_shares(const train::Trainer& trainer) override;
  std::vector<std::string> after_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      const train::StepResult& result) override;

  const std::vector<Diagnosis>& diagnoses() const { return diagnoses_; }
  // The ranking of the last step with statistics.
  const std::vector<LayerStats>& ranking() {
    finish_rankings(0);
    return ranking_;
  }
  const train::PrecisionPlan& plan() const { return auto_precision_.plan(); }

 private:
  // Drops from the run's files what a resumed run will find again, and takes up the rest. Returns
  // warnings about damaged parts.
  std::vector<std::string> take_up(train::Trainer& trainer);
  bool needs_statistics(const train::Config& config, int64_t step) const;
  // If a step was observed: starts computing its statistics, for a GPU's run on another thread.
  void end_observation(const train::Trainer& trainer);
  // Appends computed statistics to their file; waits for all but the last `left`.
  void finish_rankings(size_t left);
  // Ends the observation of a step, finishes rankings as above, and adapts to them. Returns notes.
  std::vector<std::string> take_statistics(train::Trainer& trainer, size_t left);
  // Gives layers the precision that the newest statistics call for.
  std::vector<std::string> adapt(train::Trainer& trainer, int64_t step);
  void apply(train::Trainer& trainer, const train::Promotion& change,
             const train::Amaxes& amaxes = {}) const;
  // Whether a step needs a diagnosis.
  bool is_suspicious(const train::Trainer& trainer, const train::StepResult& result);
  void remember(train::Trainer& trainer, const train::StepResult& result);
  bool is_spike(double loss) const;
  // Whether the newest statistics show f16 gradients that are zero, for the first time in a row.
  bool loses_gradients(const train::Trainer& trainer, int64_t step);
  // Says once if FP8 harms layers in two looks in a row, unless auto_precision moves them.
  void note_harm(const train::Trainer& trainer, std::vector<std::string>& notes);
  void add_note(std::vector<std::string>& notes, int64_t step, const std::string& text);
  // Writes the cure of a diagnosis to cure.toml, unless the run has one from before: faults that
  // follow may be consequences. Returns how to apply it; empty if it was not written.
  std::string keep_cure(const Diagnosis& diagnosis, int64_t step) const;
  // Appends to a file of the run's folder; durable from the next checkpoint on.
  void append_line(const char* file, const std::string& text);

  io::Path folder_;
  int64_t first_step_ = 0;                 // of this process
  std::optional<io::EventWriter> events_;  // created with the first statistics
  std::set<std::string> unsynced_;         // files with lines that a power cut would take
  std::shared_ptr<LayerStatistics> statistics_;
  std::optional<autograd::OpObserverScope> observer_scope_;
  int64_t observed_step_ = 0;
  struct PendingRanking {
    int64_t step;
    std::shared_future<std::vector<LayerStats>> layers;  // read again if writing them failed
  };
  std::deque<PendingRanking> pending_;
  std::vector<LayerStats> ranking_;
  int64_t ranked_step_ = 0;
  amp::RecipeState configured_;  // before any change
  AutoPrecision auto_precision_;
  std::vector<Diagnosis> diagnoses_;
  size_t earlier_diagnoses_ = 0;  // of the run before it was resumed
  amp::SkipStreak skipped_in_a_row_;
  bool diagnosed_ = false;           // whether the current series of bad steps has its diagnosis
  std::vector<StepRecord> history_;  // of the last steps
  std::set<std::string> harmed_;     // layers in the last look at a run in FP8
  int64_t harm_step_ = 0;            // of that look
  bool said_harm_ = false;
  double last_applied_scale_ = 0;   // of the loss
  double initial_weight_norm_ = 0;  // before the first step of this process
  int64_t diverged_step_ = 0;       // 0: the run has not diverged
  bool lost_gradients_ = false;     // whether the last statistics showed zeros
  bool spiked_ = false;             // whether the current spike has its explanation
  size_t spikes_ = 0;
};

}  // namespace binade::lab
