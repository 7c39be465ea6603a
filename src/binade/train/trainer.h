#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/data/loader.h"
#include "binade/train/config/component_options.h"
#include "binade/train/step_graph.h"

namespace binade::train {

// The result of one step.
struct StepResult {
  int64_t step = 0;          // counted from 1: the steps taken when it was done
  int64_t skipped = 0;       // of these
  double loss = 0;           // mean over its micro-batches, before the update
  double lr = 0;             // by the steps applied before it
  double gradient_norm = 0;  // before clipping
  double scale = 1;          // of the loss
  bool applied = true;
  std::string reason;  // why it was skipped
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

  // Loads the weights of a model's folder, or of a run's, in place of random ones.
  void init_from(const std::filesystem::path& given);

  // Starts the next step, on batches drawn from `tokens` or from a loader of the same
  // configuration. A GPU is still running it when this returns. A step with non-finite gradients is
  // skipped.
  void start_step(const data::Tokens& tokens);
  void start_step(data::Loader& loader);
  // On these batches, one per micro-batch.
  void start_step(std::span<const data::Batch> batches);
  // Results of started steps, oldest first, each returned once. finished() leaves out a GPU's last
  // two steps, so that the GPU never waits for the host; finish_all() waits for every step. Many
  // skipped steps in a row are an error, which start_step() throws if it is the first to read them.
  std::vector<StepResult> finished();
  std::vector<StepResult> finish_all();
  // Takes one step and waits for it.
  StepResult step(const data::Tokens& tokens);
  StepResult step(data::Loader& loader);
  // From the next step on, the linear layers of `module` run by this recipe.
  void set_fp8_recipe(const std::string& module, const amp::Fp8Recipe& recipe);
  const amp::Fp8State& fp8() const { return fp8_; }
  // Mean loss over the validation batches, without FP8, whose histories stay as they are.
  double evaluate(const data::Tokens& tokens);
  // Runs work on the model that keeps no tensors, such as generating text. A captured graph of the
  // steps stays as it is.
  void run_between_steps(FunctionRef<void()> work) { graph_.run_between(work); }

  int64_t steps() const { return steps_; }
  int64_t skipped() const { return skipped_; }
  const amp::SkipStreak& skipped_in_a_row() const { return skipped_in_a_row_; }
  const Config& config() const { return config_; }
  Device device() const { return device_; }
  // Whether the step has been captured as a graph.
  bool uses_graph() const { return graph_.captured(); }
  // The caller may change state that the captured graph assumes (FP8 histories, gradients), so the
  // next step runs without the graph.
  nn::LanguageModel& model() {
    graph_.interrupt();
    return *model_;
  }
  optim::Optimizer& optimizer() { return *optimizer_; }

  // Everything but the weights: master weights, moments, scaler, FP8 scales and histories,
  // counters. Fails while a step is unfinished.
  StateDict state_dict();
  // Loads the result of state_dict(), after the weights.
  void load_state_dict(const StateDict& state);

 private:
  using BatchOf = FunctionRef<data::Batch(int64_t micro)>;
  // A step whose results the host has not read yet.
  struct PendingStep {
    int64_t step = 0;
    backend::AsyncScalar loss, gradient_norm, found_inf;
    amp::StepReport report;

    // Of a captured step: the results of its latest replay.
    PendingStep replayed() const;
  };

  void start_on(BatchOf batch_of);
  // The schedule follows applied steps. A GPU may have skipped some of the unread ones, so it gets
  // a rate for each possible count.
  void set_learning_rate();
  // Launches all work of a step.
  PendingStep launch(BatchOf batch_of);
  // The same by the graph, which is captured first if it was not yet.
  PendingStep launch_graph(BatchOf batch_of);
  // The mean loss, f64 on the device.
  Tensor accumulate_gradients(BatchOf batch_of);
  void update(PendingStep& step);
  // Reads the results of the oldest pending steps until `left` are unread.
  void read_results(size_t left);
  // Started steps that may stay unread.
  size_t max_pending() const;
  StepResult read(const PendingStep& step);

  Config config_;
  Device device_;
  optim::Schedule schedule_;
  amp::AutocastState autocast_;
  amp::Fp8State fp8_;
  std::unique_ptr<nn::LanguageModel> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  amp::GradScaler scaler_;
  std::deque<PendingStep> pending_;
  std::vector<StepResult> results_;  // read, but not returned yet
  StepGraph graph_;
  PendingStep captured_;                   // the step in the graph
  std::vector<data::Batch> graph_inputs_;  // what it reads, one batch per micro-batch
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
  amp::SkipStreak skipped_in_a_row_;
};

}  // namespace binade::train
