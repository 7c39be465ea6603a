#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/io/folder.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/config.h"
#include "binade/train/run/start.h"

namespace binade::train {

// The doctor's first cure, as a configuration of what it changes.
inline constexpr const char* cure_file = "cure.toml";

// Keeps other processes from writing to a run's folder for its lifetime: flock on its file .lock,
// which the system releases however the process ends. The file names the host and the process.
// Readers need no lock. On file systems without flock it has no effect. A file with other names
// (hard links) is locked but not written.
class RunLock {
 public:
  // Fails if another process has the lock, naming it.
  explicit RunLock(const io::Path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Whether the locked file is still that of the folder.
  bool is_in(const io::Path& folder) const;

 private:
  int descriptor_ = -1;
  bool names_holder_ = false;
};

// Fails if an entry of a run is something else than a file or a folder of its own, such as a link.
void check_run_entries(const io::Path& folder);

// Fails if RunFolder would, but changes nothing. Returns the checkpoint to resume from.
std::optional<io::Checkpoint> check_run_folder(const Config& config);

// The folder of a run that is being written: config.out, or the next free runs/N. run.json in it
// holds what RunFile describes. All is written through the folder's handle, also if the folder is
// renamed meanwhile; links and the like in it are refused.
class RunFolder {
 public:
  // Locks the folder, removes the leftovers of killed writers, and gives what is damaged other
  // names. A folder that does not exist is made under a temporary name until put_in_place(). A run
  // to resume of which there is nothing is a new one. Fails
  // - for a new run, if there is anything of an earlier run;
  // - for one to resume, if a checkpoint is of another run, or if its checkpoints are gone or
  //   damaged, unless config.start_over is set.
  explicit RunFolder(const Config& config);

  io::Path path() const { return io::Path(*directory_); }
  io::Path checkpoints() const { return path() / "checkpoints"; }
  // Whether it had nothing of a run in it.
  bool is_new() const { return is_new_; }
  // Calls `save`, which writes the run's settings, with the name that the folder will have; then a
  // new folder appears under it, complete. Fails if someone else has taken the name.
  void put_in_place(const std::function<void(const std::filesystem::path& name)>& save);
  const std::string& run_id() const { return run_.id; }
  // The command that started the run; empty: unknown.
  const std::string& command() const { return run_.command; }
  // The checkpoint to resume from; none: start at step 0.
  const std::optional<io::Checkpoint>& resumed() const { return resumed_; }
  // What the user should know about the checkpoints found; usually empty.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Records how the run uses its memory, with the next checkpoint.
  void note_arrangement(const std::optional<Arrangement>& chosen) { run_.arrangement = chosen; }
  // Records that there is a complete checkpoint of this step; -1: none yet.
  void note_checkpoint(int64_t step);
  // Whether the folder is still there and this process's own. A lock that someone has removed is
  // taken again if possible.
  bool is_ours();
  // Whether the folder was renamed since the last call; path() is the new name then.
  bool was_renamed();
  // If someone has removed the folder: makes a new one, of the same name if that is free.
  void replace();

 private:
  void open(const std::filesystem::path& folder);
  void begin(RunStart start);

  std::filesystem::path name_;
  bool is_numbered_;  // its name is not the user's choice
  bool is_new_ = false;
  std::optional<io::AtomicFolder> unnamed_;  // a new folder before it has its name
  std::optional<io::Directory> directory_;
  std::optional<RunLock> lock_;
  RunFile run_;
  std::optional<io::Checkpoint> resumed_;
  std::vector<std::string> warnings_;
};

}  // namespace binade::train
