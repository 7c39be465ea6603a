#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "binade/data/tokens.h"
#include "binade/train/setup.h"

namespace binade::train {

// What one step did.
struct StepResult {
  int64_t step = 0;  // counted from 1: the steps taken when it was done
  double loss = 0;   // mean over its micro-batches, before the update
  double lr = 0;
  double gradient_norm = 0;  // before clipping
  double scale = 1;          // of the loss
  bool applied = true;
  std::string reason;  // of a skipped one
};

// A model, its optimizer and its scaler: all that a step changes, and so all that a checkpoint
// holds.
class Trainer {
 public:
  explicit Trainer(const Config& config);

  // Starts from the weights of a model's folder, or of a run's, instead of random ones.
  void init_from(const std::filesystem::path& given);

  // Takes the next step on batches drawn from `tokens`. A step whose gradients are not finite is
  // skipped; many such in a row are an error.
  StepResult step(const data::Tokens& tokens);
  // Mean loss over the validation batches, without FP8: it leaves no trace in the scales.
  double evaluate(const data::Tokens& tokens);

  int64_t steps() const { return steps_; }
  int64_t skipped() const { return skipped_; }
  const Config& config() const { return config_; }
  nn::LanguageModel& model() { return *model_; }
  optim::AdamW& optimizer() { return *optimizer_; }

  // Everything beside the weights: masters, moments, scaler, FP8 scales and histories, counters.
  StateDict state_dict();
  // Loads what state_dict() gave; the weights come before it.
  void load_state_dict(const StateDict& state);

 private:
  double accumulate_gradients(const data::Tokens& tokens);
  void update(StepResult& result);

  Config config_;
  optim::Schedule schedule_;
  amp::Fp8Recipe recipe_;
  std::unique_ptr<nn::LanguageModel> model_;
  std::unique_ptr<optim::AdamW> optimizer_;
  amp::GradScaler scaler_;
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
  int64_t skipped_in_a_row_ = 0;
};

}  // namespace binade::train
