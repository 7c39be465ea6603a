#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "binade/io/model_folder.h"
#include "binade/train/config/config.h"

namespace binade::train {

// Keeps other processes from writing to a run's folder for its lifetime: flock on its file .lock,
// which the system releases however the process ends. The file names the host and the process.
// Readers need no lock. On file systems without flock it has no effect.
class RunLock {
 public:
  // Fails if another process has the lock, naming it.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

// The folder for encoded texts (data/token_cache.h), which the runs in one folder share: .tokens
// beside the run's own.
std::filesystem::path token_cache(const Config& config);

// Fails if RunFolder would, but changes nothing. Returns the checkpoint to resume from.
std::optional<io::Checkpoint> check_run_folder(const Config& config);

// The folder of a run that is being written: config.out, or the next free runs/N. run.json in it
// holds the run's id, which its checkpoints repeat, and the step of its newest checkpoint.
class RunFolder {
 public:
  // Creates the folder if needed and locks it; removes the leftovers of killed writers. Fails
  // - for a new run, if there is anything of an earlier run;
  // - for one to resume, if there is none, if a checkpoint is of another run, or if its checkpoints
  //   are gone, unless config.start_over is set.
  explicit RunFolder(const Config& config);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  const std::string& run_id() const { return run_id_; }
  // The checkpoint to resume from; none: start at step 0.
  const std::optional<io::Checkpoint>& resumed() const { return resumed_; }
  // What the user should know about the checkpoints found; usually empty.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Records that there is a complete checkpoint of this step; -1: none yet.
  void note_checkpoint(int64_t step);
  // Whether the folder is still there. If someone has removed it, create_again() makes an empty one
  // for the checkpoints to come.
  bool exists() const;
  void create_again();

 private:
  void create();

  std::filesystem::path path_;
  std::optional<RunLock> lock_;
  std::string run_id_;
  std::optional<io::Checkpoint> resumed_;
  std::vector<std::string> warnings_;
};

}  // namespace binade::train
