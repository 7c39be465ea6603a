#pragma once

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

// The loss of one micro-batch of a step (counted from 0), in the precision of the configuration: a
// pure function of its arguments.
Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::Fp8Recipe& recipe,
                  const data::Tokens& tokens, int64_t step, int64_t micro);

// A model, its optimizer and its scaler: all that a step changes, and so all that a checkpoint
// holds.
class Trainer {
 public:
  explicit Trainer(const Config& config);

  // Takes the next step on batches drawn from `tokens`. A step whose gradients are not finite is
  // skipped; many such in a row are an error.
  StepResult step(const data::Tokens& tokens);
  // From the next step on the linear layers of `module` run without FP8.
  void exclude_from_fp8(const std::string& module) { recipe_.exclude.push_back(module); }
  const amp::Fp8Recipe& recipe() const { return recipe_; }
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
