#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/io/model_folder.h"
#include "binade/train/config/config.h"
#include "binade/train/memory/arrangement.h"

namespace binade::train {

inline constexpr const char* run_file_name = "run.json";

// run.json of a run's folder.
struct RunFile {
  std::string id;           // which the run's checkpoints repeat
  int64_t checkpoint = -1;  // step of the newest one; -1: none yet
  std::string command;      // that started the run; empty: unknown
  // Chosen for the run when it was last started; none: the configuration has it.
  std::optional<Arrangement> arrangement = {};
};
std::string to_json(const RunFile& file);
// The run.json of a folder, if there is one. Fails if it is damaged.
std::optional<RunFile> read_run_file(const io::Path& folder);

// Where a run begins: its id and the checkpoint to continue from, if there is one.
struct RunStart {
  RunFile run;
  std::optional<io::Checkpoint> checkpoint = {};
  std::vector<std::string> warnings = {};
  // What is damaged and must not be taken for the run's own any more: run.json, and checkpoints
  // newer than the one chosen.
  std::vector<io::Path> damaged = {};
};

// Looks for the start of the run in `folder`, changing nothing. The newest checkpoint that matches
// its manifest is chosen; what is passed over is in `warnings`. Fails for one to resume if a
// checkpoint is of another run, or if there were checkpoints and none can be used, unless
// config.start_over is set.
RunStart find_start(const io::Path& folder, const Config& config);

}  // namespace binade::train
