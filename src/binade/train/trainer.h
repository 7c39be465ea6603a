#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/data/loader.h"
#include "binade/train/config/component_options.h"
#include "binade/train/step_graph.h"

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
Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::Fp8State& fp8,
                  const data::Tokens& tokens, int64_t step, int64_t micro);

// A model, its optimizer and its scaler: all that a step changes, and so all that a checkpoint
// holds.
class Trainer {
 public:
  explicit Trainer(const Config& config);

  // Starts from the weights of a model's folder, or of a run's, instead of random ones.
  void init_from(const std::filesystem::path& given);

  // Starts the next step, on batches drawn from `tokens` or on those that a loader of the same
  // configuration has ready. A GPU is still at it when this returns. A step whose gradients are not
  // finite is skipped.
  void start_step(const data::Tokens& tokens);
  void start_step(data::Loader& loader);
  // What became of started steps, oldest first, each once. A GPU's are read two steps late, so that
  // it never waits for the host; `all` waits for every one. Many skipped in a row are an error.
  std::vector<StepResult> finished(bool all);
  // Takes one step and waits for it.
  StepResult step(const data::Tokens& tokens);
  StepResult step(data::Loader& loader);
  // From the next step on the linear layers of `module` run without FP8.
  void exclude_from_fp8(const std::string& module);
  const amp::Fp8State& fp8() const { return fp8_; }
  // Mean loss over the validation batches, without FP8: it leaves no trace in the scales.
  double evaluate(const data::Tokens& tokens);

  int64_t steps() const { return steps_; }
  int64_t skipped() const { return skipped_; }
  const Config& config() const { return config_; }
  Device device() const { return device_; }
  // Whether steps are launches of a recorded graph, as far as nothing stands in the way of one.
  bool uses_graph() const { return graph_.recorded(); }
  // Who has the model in hand may leave it otherwise than a recorded step expects: settled FP8
  // histories, other gradients. So the next step is not a launch.
  nn::LanguageModel& model() {
    graph_.interrupt();
    return *model_;
  }
  optim::AdamW& optimizer() { return *optimizer_; }

  // Everything beside the weights: masters, moments, scaler, FP8 scales and histories, counters. No
  // step may be unfinished.
  StateDict state_dict();
  // Loads what state_dict() gave; the weights come before it.
  void load_state_dict(const StateDict& state);

 private:
  using BatchOf = FunctionRef<data::Batch(int64_t micro)>;
  // A step whose outcome the host has not looked at.
  struct PendingStep {
    StepResult known;
    backend::AsyncScalar loss, gradient_norm, found_inf;
    amp::StepReport report;

    // Of a recorded step: what its latest launch does.
    PendingStep replayed() const;
  };

  void start_on(BatchOf batch_of);
  // Gives all of a step's work to the device.
  PendingStep launch(BatchOf batch_of);
  // The same by the graph, which is recorded if it was not yet.
  PendingStep launch_graph(BatchOf batch_of);
  // The mean loss, f64 on the device.
  Tensor accumulate_gradients(BatchOf batch_of);
  void update(PendingStep& step);
  StepResult finish(const PendingStep& step);

  Config config_;
  Device device_;
  optim::Schedule schedule_;
  amp::AutocastState autocast_;
  amp::Fp8State fp8_;
  std::unique_ptr<nn::LanguageModel> model_;
  std::unique_ptr<optim::AdamW> optimizer_;
  amp::GradScaler scaler_;
  std::deque<PendingStep> started_;
  StepGraph graph_;
  PendingStep recorded_;              // by the graph
  std::vector<data::Batch> batches_;  // that it reads, one for each micro-batch
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
  amp::SkipStreak skipped_in_a_row_;
};

}  // namespace binade::train
