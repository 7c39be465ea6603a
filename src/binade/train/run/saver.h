#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "binade/io/model_folder.h"
#include "binade/train/audit/step_audit.h"
#include "binade/train/checkpoint_writer.h"
#include "binade/train/run/origin.h"
#include "binade/train/run/state.h"

namespace binade::train {

// Writes what a run saves in its folder: its settings, the files beside its weights, checkpoints
// and the best model.
class RunSaver {
 public:
  // `run` must outlive it.
  RunSaver(RunState& run, Origin origin) : run_(run), origin_(std::move(origin)) {}

  // Reads the files beside the weights. Gives what is damaged in a resumed run's folder other
  // names, and returns whether anything was.
  bool read_companions();
  // The settings that resuming needs, for a folder that has or will have this name.
  void save_settings(const std::filesystem::path& name);
  // Opens the log, which begins after the steps so far, and the writer of checkpoints.
  void open();

  // Saves a checkpoint in the background. All results of steps have arrived.
  void save();
  // Saves what it can: the caller is about to report why the run ends.
  void save_before_failing();
  // Replaces the best model by that of now.
  void save_best();
  // Notes a checkpoint that was completed since the last call; wait() waits for one.
  void poll() { note_checkpoint(writer_->poll()); }
  void wait() { note_checkpoint(writer_->wait()); }

  // A folder that was renamed is written where it is now. Throws if it was removed, with the state
  // of now in a new one.
  void follow_folder();
  [[noreturn]] void end_in_new_folder();

  // The newest that this process has written; empty: none.
  const std::filesystem::path& checkpoint() const { return checkpoint_; }

 private:
  void keep(const AuditFinding& finding);
  io::CompanionFiles current_companions() const;
  io::CompanionFiles with_plan() const;
  void note_checkpoint(const std::optional<std::filesystem::path>& written);

  RunState& run_;
  Origin origin_;
  io::CompanionFiles companions_;
  std::optional<CheckpointWriter> writer_;
  std::filesystem::path checkpoint_;
};

// The folder of the best model of a run.
io::Path best_folder(const RunState& run);
// The checkpoint that a run was resumed from, guarded as the run's folder is.
io::Path resumed_path(const RunState& run);

}  // namespace binade::train
