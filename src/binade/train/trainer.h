#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/data/corpus.h"
#include "binade/data/loader.h"
#include "binade/io/weight_shards.h"
#include "binade/ranks/sharded.h"
#include "binade/ranks/step_clock.h"
#include "binade/train/audit/step_audit.h"
#include "binade/train/config/component_options.h"
#include "binade/train/graph_inputs.h"
#include "binade/train/hash/state_hash.h"
#include "binade/train/layer_recipes.h"
#include "binade/train/memory/arrangement.h"
#include "binade/train/preferences.h"
#include "binade/train/run/order.h"
#include "binade/train/step_graph.h"

namespace binade::train {

// The mean over validation batches.
struct Validation {
  double loss = 0;
  std::optional<Preferences> preferences = {};  // of pairs
};

// The result of one step.
struct StepResult {
  int64_t step = 0;          // counted from 1: the steps taken when it was done
  int64_t skipped = 0;       // of these
  double loss = 0;           // mean over its micro-batches, before the update
  double lr = 0;             // by the steps applied before it
  double gradient_norm = 0;  // before clipping
  double scale = 1;          // of the loss
  bool applied = true;
  std::string reason;                           // why it was skipped
  std::optional<Preferences> preferences = {};  // of pairs, means over its micro-batches
};

// The weights that one rank writes of a checkpoint, copied to the host's memory.
struct WeightShard {
  std::string file;
  StateDict tensors;
};

// A model, its optimizer and its scaler: all that a step changes, and so all that a checkpoint
// holds. Each rank has a Trainer, which shares the micro-batches of a step and the optimizer's
// state with the others; a process alone is one rank of one. Rank 0 leads: what its caller calls,
// the others do in follow() (train/run/follow.h). Results have the same bits for any number of
// ranks.
class Trainer {
 public:
  explicit Trainer(const Config& config,
                   std::shared_ptr<ranks::Communicator> ranks = ranks::single());

  // Loads the weights of a model's folder, or of a run's, in place of random ones.
  void init_from(const std::filesystem::path& given);
  // Loads the adapters of a folder with PEFT's files. Ranks and targets must be the model's.
  void load_adapter(const std::filesystem::path& folder);

  // Gives the pairs of a split the log-probabilities of their answers by the reference model, which
  // steps and validations on pairs need: by the model as it is now, in evaluation mode, or as the
  // state that was loaded has them. Does nothing for other objectives. Collective.
  void prepare_reference(data::Split& split, const data::Progress& progress = {});

  // Starts the next step, on batches drawn from `tokens` or from a loader of the same
  // configuration. A GPU is still running it when this returns. A step with non-finite gradients is
  // skipped.
  void start_step(const data::Tokens& tokens);
  void start_step(data::Loader& loader);
  // On these batches, one per micro-batch of this rank.
  void start_step(std::span<const data::Batch> batches);
  // Results of started steps, oldest first, each returned once. finished() leaves out a GPU's last
  // two steps, so that the GPU never waits for the host; finish_all() waits for every step. Many
  // skipped steps in a row are an error, which start_step() throws if it is the first to read them.
  std::vector<StepResult> finished();
  std::vector<StepResult> finish_all();
  // Takes one step and waits for it.
  StepResult step(const data::Tokens& tokens);
  StepResult step(data::Loader& loader);
  // From the next step on, the linear layers of `module` run by this recipe. Delayed scales that
  // come into use again after a pause start from `amaxes`, since their own histories are outdated.
  void set_recipe(const std::string& module, const amp::Recipe& recipe, const Amaxes& amaxes = {});
  const amp::RecipeState& recipes() const { return recipes_; }
  // Validates without a recipe, whose scales stay as they are.
  Validation evaluate(const data::Tokens& tokens);
  // Runs work on the model that keeps no tensors, such as generating text. A captured graph of the
  // steps stays as it is.
  void run_between_steps(FunctionRef<void()> work) { graph_.run_between(work); }

  ranks::Communicator& ranks() const { return *ranks_; }
  // Micro-batches of a step that this rank runs, and of a loader that reads them from the next step
  // on.
  int64_t own_micro_batches() const { return std::ssize(sharded_->micro_batches()); }
  data::Loader::Options loader_options() const;
  // The time of each rank since the Trainer was made. Empty for a process alone. Collective.
  std::vector<ranks::RankTime> rank_times();
  // The fraction of their time that all ranks have waited for others before the last step.
  double waiting() const { return waiting_; }
  // Tells the other ranks what rank 0 is about to do. What the members of this class do they
  // announce themselves. Does nothing on other ranks.
  void announce(const Command& command);
  // Rank 0 gets all weights until the next step or evaluation, if the ranks share them: for work
  // on the model outside of these. Collective.
  void gather_weights();
  // Every rank gets all weights, so that others can be loaded; load_state_dict() ends it.
  // Collective.
  void hold_weights();
  // The signal that asked a rank to stop before the last step, or 0. A rank tells the others its
  // own with each step.
  int stop_signal() const { return stop_signal_; }
  void set_stop_signal(int signal) { own_stop_signal_ = signal; }

  int64_t steps() const { return steps_; }
  int64_t skipped() const { return skipped_; }
  const amp::SkipStreak& skipped_in_a_row() const { return skipped_in_a_row_; }
  const Config& config() const { return config_; }
  // The activations that the configuration has, or that were chosen.
  const Arrangement& arrangement() const { return arrangement_; }
  Device device() const { return device_; }
  // Whether the step has been captured as a graph.
  bool uses_graph() const { return graph_.captured(); }
  // The audit of the steps; null if config.run.audit is 0.
  StepAudit* audit() { return audit_.get(); }
  // The caller may change state that the captured graph assumes (histories of scales, gradients),
  // so the next step runs without the graph.
  nn::LanguageModel& model() {
    graph_.interrupt();
    return *model_;
  }
  optim::Optimizer& optimizer() { return *optimizer_; }

  // Whether each rank writes a shard of a checkpoint's weights, instead of rank 0 all of them;
  // which.
  bool shares_weights() const;
  io::WeightShards weight_shards() const;
  // This rank's shard, which goes into `folder`. Collective.
  WeightShard take_shard(const std::string& folder);

  // Everything but the weights: master weights, moments, scaler, delayed scales and
  // histories, counters. Fails while a step is unfinished.
  StateDict state_dict();
  // Loads the result of state_dict(), after the weights.
  void load_state_dict(const StateDict& state);
  // The hash of what state_dict() and the weights hold, the same for any number of ranks. Fails
  // while a step is unfinished. Collective.
  StateHash hash();

 private:
  using BatchOf = FunctionRef<data::Batch(int64_t micro)>;
  // A step whose results the host has not read yet.
  struct PendingStep {
    int64_t step = 0;
    backend::AsyncScalar loss, gradient_norm, found_inf;
    amp::StepReport report;
    std::vector<backend::AsyncScalar> preferences = {};

    // The results of the latest replay of a captured step.
    PendingStep replayed() const;
  };

  void start_on(BatchOf batch_of);
  // Launches a step, by the graph if it may, and counts the time it took.
  PendingStep run_step(BatchOf batch_of);
  // The schedule follows applied steps. A GPU may have skipped some of the unread ones, so it gets
  // a rate for each possible count.
  void set_learning_rate();
  // Fails if a step is unfinished.
  void require_no_pending(std::string_view caller) const;
  // The sums of all ranks' numbers, modulo 2^64. Collective.
  std::vector<uint64_t> sums_of_ranks(const std::vector<uint64_t>& own);
  // Launches all work of a step.
  PendingStep launch(BatchOf batch_of);
  // launch() by the graph, which is captured first if it was not yet.
  PendingStep launch_graph(BatchOf batch_of);
  std::unique_ptr<optim::Optimizer> new_optimizer();
  // Shares the optimizer's parameters as they are now.
  std::unique_ptr<ranks::Sharded> new_sharded();
  // The log-probabilities of a reference model, by document of the split's parts.
  struct Reference {
    std::vector<float> train, validation;
  };

  std::vector<float> reference_log_probs(const data::Tokens& pairs, const data::Progress& progress);
  // Runs one micro-batch and returns its loss, and scalars of pairs behind it.
  std::vector<Tensor> backward(const data::Batch& host);
  // Those of this rank's micro-batches, one behind the other.
  std::vector<Tensor> accumulate_gradients(BatchOf batch_of);
  void apply(const optim::Clip& clip, PendingStep& step);
  // Reads the results of the oldest pending steps until `left` are unread.
  void read_results(size_t left);
  // Started steps that may stay unread.
  size_t max_pending() const;
  StepResult read(const PendingStep& step);
  std::string reason_of(const amp::StepReport& report) const;

  Config config_;
  Arrangement arrangement_;
  Device device_;
  optim::Schedule schedule_;
  amp::AutocastState autocast_;
  amp::RecipeState recipes_;
  std::unique_ptr<nn::LanguageModel> model_;
  std::shared_ptr<ranks::Communicator> ranks_;
  ranks::Partition partition_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<ranks::Sharded> sharded_;
  amp::GradScaler scaler_;
  std::unique_ptr<StepAudit> audit_;
  std::deque<PendingStep> pending_;
  std::vector<StepResult> results_;  // read, but not returned yet
  StepGraph graph_;
  PendingStep captured_;  // the step in the graph
  GraphInputs graph_inputs_;
  std::optional<Reference> reference_;
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
  uint64_t batches_ = 0;  // hash of all batches so far: this rank's part of the sum
  amp::SkipStreak skipped_in_a_row_;
  int own_stop_signal_ = 0, stop_signal_ = 0;
  ranks::StepClock clock_;
  double waiting_ = 0;
};

}  // namespace binade::train
