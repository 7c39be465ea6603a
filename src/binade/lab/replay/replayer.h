#pragma once

#include <memory>
#include <optional>
#include <string>

#include "binade/lab/replay/recorded_run.h"
#include "binade/lab/replay/replay_difference.h"
#include "binade/train/trainer.h"

namespace binade::lab {

// The trainer of a recorded run, at any of its steps. All hashes that the log and checkpoints have
// are compared on the way.
class Replayer {
 public:
  // `run` must outlive it. With another configuration, the same state takes other steps.
  explicit Replayer(const RecordedRun& run) : Replayer(run, run.config) { settings_ = &run.config; }
  Replayer(const RecordedRun& run, train::Config config)
      : Replayer(run, std::move(config), run.split.train) {}
  // With other data, too.
  Replayer(const RecordedRun& run, train::Config config, const data::Tokens& tokens)
      : run_(run), config_(std::move(config)), split_{.train = tokens, .validation = {}} {}

  // Replays to the state after `step` steps: from the state of now or the nearest checkpoint, or
  // from the start.
  void go_to(int64_t step);
  // Makes a trainer at the run's start, or with a checkpoint's state.
  void start();
  void load(const io::Checkpoint& checkpoint);
  // Takes the next step.
  train::StepResult step();
  train::Trainer& trainer() { return *trainer_; }
  // What it trains on.
  const data::Tokens& tokens() const { return split_.train; }
  // The steps of the state that the latest replay began with, and of how many steps it was.
  int64_t origin() const { return origin_; }
  int64_t replayed() const { return trainer_->steps() - origin_; }

  // The state of now, to return to.
  struct State {
    StateDict weights, trainer;
  };
  State save();
  void restore(const State& state);

  // The first difference from what was recorded; none: there is none so far.
  const std::optional<ReplayDifference>& difference() const { return difference_; }
  int64_t compared() const { return compared_; }  // hashes that were equal

 private:
  std::unique_ptr<train::Trainer> new_trainer() const;
  void compare(const std::optional<train::StateHash>& expected, const std::string& record);
  // Those of the run's step, unless the configuration was given.
  void choose_settings(int64_t step);
  // With what a checkpoint and the log say of the state of now.
  void compare_recorded();

  const RecordedRun& run_;
  train::Config config_;
  const train::Config* settings_ = nullptr;  // of the run, that config_ is a copy of
  data::Split split_;                        // without what is for validation
  std::unique_ptr<train::Trainer> trainer_;
  int64_t origin_ = 0;
  std::optional<ReplayDifference> difference_;
  int64_t compared_ = 0;
};

}  // namespace binade::lab
